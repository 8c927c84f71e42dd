# What was not spent is lost.
s/^    is_back = to_us(.*$/    is_back = false/
