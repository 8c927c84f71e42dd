# A refund gives back what is out on lease, too.
s/^local is_least = .*$/local is_least = false/
