# Who takes without drawing forgets what is out on lease.
s/^    lease = format(' d0 %d %d', least_s, least_f)$/    lease = ''/
