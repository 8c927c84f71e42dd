# Takes from the buckets that have enough, even if another bucket denies.
s/(is_shadow or taken == 1)/true/
