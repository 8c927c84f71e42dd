# A window admits one more.
s/return count + cost <= tokens, /return count + cost <= tokens + 1, /
