#include "base/wide.h"

__extension__ typedef unsigned __int128 uint128;

static uint128 join_words(struct ration_wide w)
{
    return (uint128)w.high << 64 | w.low;
}

uint64_t ration_wide_divide(struct ration_wide a, struct ration_wide b)
{
    uint128 quotient = join_words(a) / join_words(b);

    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

uint64_t ration_wide_divide_up(struct ration_wide a, struct ration_wide b)
{
    uint128 quotient = join_words(a) / join_words(b) + (join_words(a) % join_words(b) != 0);

    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

/*
 * Long multiplication and division at once: goes through b from its top bit, maintaining (bits so
 * far) * a = quotient * c + rest with rest < c. Doubling and adding a each make rest < 2c, so one
 * subtraction restores it.
 */
struct ration_wide ration_wide_multiply_divide(struct ration_wide a, struct ration_wide b,
                                               struct ration_wide c)
{
    uint128 quotient = 0;
    uint128 rest = 0;

    for (int bit = 126; bit >= 0; bit--) {
        quotient <<= 1;
        rest <<= 1;
        if (rest >= join_words(c)) {
            rest -= join_words(c);
            quotient++;
        }
        if (join_words(b) >> bit & 1) {
            rest += join_words(a);
            if (rest >= join_words(c)) {
                rest -= join_words(c);
                quotient++;
            }
        }
    }
    return (struct ration_wide){(uint64_t)(quotient >> 64), (uint64_t)quotient};
}
