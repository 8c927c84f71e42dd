# create.c: who meets another's claim waits for it.
s|^        kind->complete(section, &entrance, initial);$|        (void)initial; /* seeded */|
