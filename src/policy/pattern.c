#include "policy/pattern.h"

#include <string.h>

static bool begins_with(const char *bytes, size_t size, const char *start, size_t start_size)
{
    return size >= start_size && (start_size == 0 || memcmp(bytes, start, start_size) == 0);
}

bool ration_pattern_make_text(struct ration_arena *arena, enum ration_pattern_kind kind,
                              const char *text, size_t size, struct ration_pattern *out_pattern)
{
    char *copy = ration_arena_copy(arena, text, size);

    if (!copy)
        return false;
    *out_pattern = (struct ration_pattern){.kind = kind,
                                           .size = (uint32_t)size,
                                           .start_size = (uint32_t)size,
                                           .bytes = copy,
                                           .start = copy};
    return true;
}

/*
 * Writes the text before the first wildcard, without escaping backslashes. Returns the number of
 * bytes of text that it used.
 */
static size_t unescape_start(const char *text, size_t size, char *start, size_t *out_start_size)
{
    size_t at = 0, used = 0;

    for (; at < size && text[at] != '*' && text[at] != '?'; at++) {
        if (text[at] == '\\' && at + 1 < size)
            at++;
        start[used++] = text[at];
    }
    *out_start_size = used;
    return at;
}

bool ration_pattern_make_glob(struct ration_arena *arena, const char *text, size_t size,
                              struct ration_pattern *out_pattern)
{
    char *start = ration_arena_copy(arena, text, size);
    char *copy = ration_arena_copy(arena, text, size);
    size_t start_size, at;

    if (!start || !copy)
        return false;
    at = unescape_start(text, size, start, &start_size);
    start[start_size] = '\0';
    *out_pattern = (struct ration_pattern){.kind = RATION_PATTERN_GLOB,
                                           .size = (uint32_t)size,
                                           .start_size = (uint32_t)start_size,
                                           .bytes = copy,
                                           .start = start};
    while (at + 1 < size && text[at] == '*' && text[at + 1] == '*')
        at++;
    bool is_exact = at == size;
    if (is_exact || (at + 1 == size && text[at] == '*')) {
        out_pattern->kind = is_exact ? RATION_PATTERN_EXACT : RATION_PATTERN_PREFIX;
        out_pattern->bytes = start;
        out_pattern->size = (uint32_t)start_size;
        return true;
    }
    out_pattern->glob = ration_glob_make(arena, text, size);
    return out_pattern->glob != NULL;
}

bool ration_pattern_matches(const struct ration_pattern *pattern, const struct ration_key *value,
                            const struct ration_address *address, struct ration_glob_work *work)
{
    switch (pattern->kind) {
    case RATION_PATTERN_EXACT:
        return value->size == pattern->size &&
               begins_with(value->bytes, value->size, pattern->bytes, pattern->size);
    case RATION_PATTERN_PREFIX:
        return begins_with(value->bytes, value->size, pattern->bytes, pattern->size);
    case RATION_PATTERN_GLOB:
        return ration_glob_matches(pattern->glob, value, work);
    case RATION_PATTERN_NETWORK:
        return ration_address_network_contains(&pattern->network, address);
    }
    return false;
}

static bool text_matches(const struct ration_pattern *pattern, const struct ration_pattern *exact)
{
    return ration_pattern_matches(pattern, &(struct ration_key){exact->bytes, exact->size}, NULL,
                                  NULL);
}

/* Two networks are either nested or disjoint. */
static bool network_covers(const struct ration_pattern *a, const struct ration_pattern *b)
{
    return a->network.bits <= b->network.bits &&
           ration_address_network_contains(&a->network, &b->network.base);
}

bool ration_pattern_exclude_each_other(const struct ration_pattern *a,
                                       const struct ration_pattern *b)
{
    if (a->kind == RATION_PATTERN_NETWORK)
        return !network_covers(a, b) && !network_covers(b, a);
    if (a->kind == RATION_PATTERN_EXACT)
        return !text_matches(b, a);
    if (b->kind == RATION_PATTERN_EXACT)
        return !text_matches(a, b);
    return !begins_with(a->start, a->start_size, b->start, b->start_size) &&
           !begins_with(b->start, b->start_size, a->start, a->start_size);
}

bool ration_pattern_covers(const struct ration_pattern *a, const struct ration_pattern *b)
{
    if (a->kind == RATION_PATTERN_NETWORK)
        return network_covers(a, b);
    if (b->kind == RATION_PATTERN_EXACT)
        return text_matches(a, b);
    if (a->kind == RATION_PATTERN_PREFIX)
        return begins_with(b->start, b->start_size, a->bytes, a->size);
    return a->kind == b->kind && a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}
