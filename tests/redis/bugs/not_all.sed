# What fits is taken whatever the others say.
s/(plan.is_shadow or taken == 1)/true/
