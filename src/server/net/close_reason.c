#include "server/net/close_reason.h"

const char *ration_close_reason_name(enum ration_close_reason close_reason)
{
    static const char *const words[RATION_CLOSE_REASON_COUNT] = {
        "none",
#define CLOSE_REASON_NAME(name, word, answered) word,
        RATION_CLOSE_REASON_MAP(CLOSE_REASON_NAME)
#undef CLOSE_REASON_NAME
    };

    return words[close_reason];
}
