# What was not spent is given back also behind what others drew meanwhile.
s/ and string.match(text, ' d(%d+) ') == ARGV\[6\]//
