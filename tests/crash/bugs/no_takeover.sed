# descriptor.c: no owner is ever found dead, so the descriptors run out.
/^static bool is_gone(/,/^{$/ s|^{$|{ /* seeded */\
    if (section->block->is_shared)\
        return false;\
|
