# The amount charged since the acquisition does not include the cost of this call.
s/^    charged_s, charged_f = add(charged_s, charged_f, cost_s, cost_f, UNITS)$//
