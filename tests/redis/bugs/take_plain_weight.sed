# Weighs the older count of a sliding window by its whole window.
s/local d, e, f = multiply(previous, left_s, left_ns)/local d, e, f = multiply(previous, p_s, p_ns)/
