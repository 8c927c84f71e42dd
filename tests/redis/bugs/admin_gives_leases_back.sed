# A refund gives back what is out on lease, too.
s/^local has_min_tat = .*$/local has_min_tat = false/
