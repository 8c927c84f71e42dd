# The cost is not charged.
s/^if taken == 1 then tat_s, tat_f = next_s, next_f end$//
