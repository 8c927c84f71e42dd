# claim.c: a thread that meets another thread's claim waits for it.
s|^            break;$|            continue; /* seeded */|
