# Returning a lease makes a block end earlier.
s/^    since_s, since_f = now_s, now_f -- no lease.*$//
