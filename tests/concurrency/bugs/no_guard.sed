# engine_guard.c: what is asked through a guard is about the policy in force, not about the one that it holds.
s|return guard->plan->policy;|return ration_engine_plan(guard->engine)->policy; /* seeded */|
s|return guard->plan->generation;|return ration_engine_plan(guard->engine)->generation; /* seeded */|
