# descriptor.c: a thread that takes over a dead owner's descriptor does not finish the owner's change.
s|^    ration_commit_finish(section, descriptor);$|    /* seeded */|
