# What was not spent is given back also behind what others drew meanwhile.
s/^local is_back = mark == ARGV\[6\] and /local is_back = text and /
