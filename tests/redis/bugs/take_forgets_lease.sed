# The amount charged to a leased bucket does not include the cost of a take.
s/^    charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV\[first\]), .*$//
