# The mark stays when others take: what is given back then was theirs.
s/^    lease = format(' d0 %d %d', least_s, least_f)$/    lease = format(' d%s %d %d', mark, least_s, least_f)/
