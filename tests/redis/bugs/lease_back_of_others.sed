# The mark stays when others take: what is given back then was theirs.
s/^local mark = drawn > 0 and .*$/local mark = ' d' .. (drawn > 0 and ARGV[7] or text and string.match(text, ' d(%d+) ') or 0)/
