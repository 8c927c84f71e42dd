# A lease from before the bucket's record began is returned by its number nevertheless.
s/if is_converted or not has_lease then/if is_converted then/
