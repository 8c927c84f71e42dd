# descriptor.c: who inherits a seat does not finish what the dead one had begun.
s|^    ration_commit_finish(section, descriptor);$|    /* seeded */|
