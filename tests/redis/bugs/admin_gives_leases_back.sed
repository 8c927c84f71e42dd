# A refund also returns tokens that nodes hold in leases.
s/^local has_min_tat = .*$/local has_min_tat = false/
