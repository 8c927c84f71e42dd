# What was drawn before a record began is given back by its number all the same.
s/if is_converted or not has_lease then/if is_converted then/
