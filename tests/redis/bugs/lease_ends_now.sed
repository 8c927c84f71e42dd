# What is drawn counts as spent now, though it is spent later.
s/^local base_s, base_f = add(.*)$/local base_s, base_f = now_s, now_f/
