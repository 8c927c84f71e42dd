# Acquired tokens count as spent now, although they are spent later.
s/^local base_s, base_f = add(.*)$/local base_s, base_f = now_s, now_f/
