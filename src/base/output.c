#include "base/output.h"

#include <stdlib.h>

#define FIRST_BYTES 1024

void ration_output_init(struct ration_output *output, size_t bytes_max)
{
    *output = (struct ration_output){.bytes_max = bytes_max};
}

void ration_output_done(struct ration_output *output)
{
    free(output->bytes);
    ration_output_init(output, output->bytes_max);
}

void ration_output_reset(struct ration_output *output)
{
    if (output->allocated_bytes > RATION_OUTPUT_KEEP_BYTES) {
        ration_output_done(output);
        return;
    }
    output->size = 0;
    output->usable_bytes = output->allocated_bytes;
    output->is_failed = output->is_out_of_memory = false;
}

void ration_output_rewind(struct ration_output *output, size_t size)
{
    output->size = size;
    output->usable_bytes = output->allocated_bytes;
    output->is_failed = output->is_out_of_memory = false;
}

static bool set_failed(struct ration_output *output)
{
    output->is_failed = true;
    output->usable_bytes = output->size; /* so that the next append takes the slow path and
                                            fails, too */
    return false;
}

bool ration_output_grow(struct ration_output *output, size_t more_bytes)
{
    if (output->is_failed || more_bytes > output->bytes_max - output->size)
        return set_failed(output);
    size_t wanted = output->size + more_bytes;
    size_t bytes = output->allocated_bytes ? output->allocated_bytes : FIRST_BYTES;
    while (bytes < wanted)
        bytes = bytes > output->bytes_max / 2 ? output->bytes_max : 2 * bytes;
    if (bytes > output->bytes_max)
        bytes = output->bytes_max;
    char *moved = realloc(output->bytes, bytes);
    output->is_out_of_memory = moved == NULL;
    if (!moved)
        return set_failed(output);
    output->bytes = moved;
    output->allocated_bytes = output->usable_bytes = bytes;
    return true;
}

/* Counts decimal digits: 1233 / 4096 is log10(2), one too many close to a power of ten. */
static unsigned count_digits(uint64_t number)
{
    static const uint64_t powers[] = {
        0,
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
    unsigned guess = bits * 1233 >> 12;
    return guess + 1 - (number < powers[guess]);
}

char *ration_output_put_u64(uint64_t number, char *out)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
                                "31323334353637383940414243444546474849505152535455565758596061"
                                "62636465666768697071727374757677787980818283848586878889909192"
                                "93949596979899";
    char *end = out + count_digits(number), *at = end;
    for (; number >= 100; number /= 100)
        memcpy(at -= 2, pairs + 2 * (number % 100), 2);
    if (number >= 10)
        memcpy(at - 2, pairs + 2 * number, 2);
    else
        at[-1] = (char)('0' + number);
    return end;
}
