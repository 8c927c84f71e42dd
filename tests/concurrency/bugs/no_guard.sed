# visit.c: what is asked through a guard is about the policy in force, not about the one that it holds.
s|return visit->plan->policy;|return ration_gate_plan(visit->gate)->policy; /* seeded */|
s|return visit->plan->generation;|return ration_gate_plan(visit->gate)->generation; /* seeded */|
