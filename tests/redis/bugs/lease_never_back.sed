# Unused tokens are lost.
s/^    is_back = to_us(.*$/    is_back = false/
