# claim.c: who has claimed a place does not look for others of its key.
/^static enum fate resolve_claim(/,/^{$/ s|^{$|{ /* seeded */\
    if (location->tag != 0)\
        return FATE_ALONE;\
|
