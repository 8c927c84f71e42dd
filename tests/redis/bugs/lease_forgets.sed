# Who takes is not counted among those who were charged.
s/^    charged_s, charged_f = add(charged_s, charged_f, cost_s, cost_f, UNITS)$//
