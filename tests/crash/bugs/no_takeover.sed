# descriptor.c: nobody is ever taken for dead, so that seats are used up.
/^static bool is_gone(/,/^{$/ s|^{$|{ /* seeded */\
    if (section->block->is_shared)\
        return false;\
|
