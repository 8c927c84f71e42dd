#include "server/ending.h"

const char *ration_ending_word(enum ration_ending ending)
{
    static const char *const words[RATION_ENDING_COUNT] = {"none",
#define ENDING_WORD(name, word, answered) word,
                                                           RATION_ENDING_MAP(ENDING_WORD)
#undef ENDING_WORD
    };

    return words[ending];
}
