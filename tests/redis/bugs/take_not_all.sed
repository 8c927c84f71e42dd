# What fits is taken whatever the others say.
s/(is_shadow or taken == 1)/true/
