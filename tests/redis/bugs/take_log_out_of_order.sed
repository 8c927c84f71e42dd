# A log's newest moment lies before others, where now has run back.
s/^            if not less(last\[1\], last\[2\], back_s, back_ns) then$/            if false then/
