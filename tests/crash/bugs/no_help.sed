# claim.c: who meets another's claim waits for it.
s|^            break;$|            continue; /* seeded */|
