# engine_guard.c: a guard reads the policy in force instead of the policy that it protects.
s|return guard->plan->policy;|return ration_engine_plan(guard->engine)->policy; /* seeded */|
s|return guard->plan->generation;|return ration_engine_plan(guard->engine)->generation; /* seeded */|
