# What is refunded stays charged, so that numbers of leases come round.
s/^    if has_min_tat then -- what is refunded.*$/    if false then/
s/^        since_s, since_f = now_s, now_f$//
