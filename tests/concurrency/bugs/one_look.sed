# create.c: who has claimed a place does not look for others of its key.
/^static enum fate see_through(/,/^{$/ s|^{$|{ /* seeded */\
    if (place->tag != 0)\
        return FATE_ALONE;\
|
