# What was not spent is given back also where others would move to before the end of their leases.
s/^    is_back = to_us(.*$/    is_back = true/
