# Computes a window's end by a division of doubles.
s/^ *s, ns = select(2, divide(s, ns, p_s, p_ns))$/    local t = (now_s + now_ns \/ 1e9) % (p_s + p_ns \/ 1e9); s, ns = floor(t), floor((t - floor(t)) * 1e9)/
