# A log's newest moment lies before others, if now has run backwards.
s/^            if not less(last\[1\], last\[2\], back_s, back_ns) then$/            if false then/
