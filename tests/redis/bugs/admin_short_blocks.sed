# A lease that is given back makes a block end earlier.
s/^    since_s, since_f = now_s, now_f -- no lease.*$//
