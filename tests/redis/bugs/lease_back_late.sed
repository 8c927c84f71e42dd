# Unused tokens are returned even if that moves other leases' places to before the ends of those leases.
s/^    is_back = to_us(.*$/    is_back = true/
