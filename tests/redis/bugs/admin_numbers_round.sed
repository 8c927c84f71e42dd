# Refunded tokens stay charged, so that the numbers of leases wrap around.
s/^    if has_min_tat then -- what is refunded.*$/    if false then/
s/^        since_s, since_f = now_s, now_f$//
