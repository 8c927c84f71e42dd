# commit.c: changes the keys of a stack one after the other.
/^bool ration_commit(/,/^{$/ s|^{$|{ /* seeded */\
    for (uint32_t i = 0; i < part_count; i++)\
        if (!ration_entry_change(parts[i].section, parts[i].view, parts[i].next))\
            return false;\
    if (part_count > 0)\
        return true;\
|
