# Who takes is not counted among those who were charged of a leased bucket.
s/^    charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV\[first\]), .*$//
