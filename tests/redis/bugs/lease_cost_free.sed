# The cost is not charged.
s/^    tat_s, tat_f = next_s, next_f$//
