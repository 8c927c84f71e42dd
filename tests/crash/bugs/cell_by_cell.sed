# entry.c: changes the cells of an entry one after the other, without a descriptor.
/^bool ration_entry_change(/,/^{$/ s|^{$|{ /* seeded */\
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {\
        struct ration_pair *cell = \&cells_of(view->head)[i];\
        struct ration_pair seen = ration_atomic16_load(cell);\
        struct ration_slot slot = ration_slot_unpack(seen);\
\
        slot.expires_at = next->cells[i];\
        if (!ration_atomic16_swap(cell, \&seen, ration_slot_pack(slot)))\
            return false;\
    }\
    if (section->shape.cell_count > 0)\
        return true;\
|
