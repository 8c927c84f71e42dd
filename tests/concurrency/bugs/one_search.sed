# claim.c: a thread that has claimed a place does not search for other claims of its key.
/^static enum fate resolve_claim(/,/^{$/ s|^{$|{ /* seeded */\
    if (location->tag != 0)\
        return FATE_ALONE;\
|
