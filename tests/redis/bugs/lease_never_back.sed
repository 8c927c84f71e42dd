# What was not spent is lost.
s/^    is_back = need_s .*$/    is_back = false/
