# atomic16.h: stores the two words of a slot that changes its key one after the other, tag first.
s|ration_atomic16_swap(|swap_together(|
s|^#include <stdint.h>$|&\
#include "base/yield.h"|
$ i\
static inline bool ration_atomic16_swap(struct ration_pair *target, struct ration_pair *expected,\
                                        struct ration_pair desired) /* seeded */\
{\
    if (expected->words[0] >> 20 == desired.words[0] >> 20) /* the same key's */\
        return swap_together(target, expected, desired);\
    if (!__atomic_compare_exchange_n(&target->words[0], &expected->words[0], desired.words[0],\
                                     false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {\
        expected->words[1] = __atomic_load_n(&target->words[1], __ATOMIC_SEQ_CST);\
        return false;\
    }\
    ration_yield_point();\
    __atomic_store_n(&target->words[1], desired.words[1], __ATOMIC_SEQ_CST);\
    return true;\
}\

