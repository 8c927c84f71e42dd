#include "limiter/fast_simd.h"

#include "base/fence.h"
#include "base/hash_aes.h"
#include "base/tsc.h"
#include "limiter/fast.h"
#include "table/plain.h"

#if defined(__x86_64__) && !defined(RATION_UNDER_TSAN)

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x)     __builtin_expect(!!(x), 1)

#define RATION_OTHER_LINES 3u

/*
 * The GCRA step (gcra.h) for one token, for capacities that do not fit one word. Returns false if the bucket
 * does not hold a token.
 */
static __attribute__((noinline)) bool take_step_long(const struct ration_config *config,
                                                     uint64_t since_ns, struct ration_pair value,
                                                     struct ration_pair *out_next)
{
    struct ration_rate rate = ration_config_read_rate(&config->rules[0].limit.rate);
    struct ration_time now = ration_time_from_ns(since_ns);
    struct ration_time next =
        ration_time_add(ration_time_max(ration_slot_expires_at(value), now), rate.token);

    if (ration_time_less(ration_time_add(now, rate.capacity), next))
        return false;
    *out_next = ration_slot_pack(
        (struct ration_slot){ration_slot_tag(value), config->established_flags, next});
    return true;
}

/*
 * The GCRA step (gcra.h) for one token: computes the tokens in use at now, plus one, as time in units of 2^-20
 * ns. Returns false if that exceeds the capacity.
 */
static ALWAYS_INLINE bool take_step(const struct ration_config *config, uint64_t since_ns,
                                    struct ration_pair value, struct ration_pair *out_next)
{
    const struct ration_config_short *rate = &config->terms.short_rate;
    uint64_t ns = value.words[1] >> RATION_FLAGS_BITS;
    uint64_t used = RATION_CONFIG_READ(rate->token);

    if (!LIKELY(RATION_CONFIG_READ(config->terms.is_short)))
        return take_step_long(config, since_ns, value, out_next);
    if (ns >= since_ns) { /* the bucket is not full */
        if (ns - since_ns > RATION_CONFIG_READ(rate->capacity_ns))
            return false;
        used += (ns - since_ns) << RATION_FRAC_BITS | (value.words[0] & RATION_FRAC_MASK);
    }
    if (used > RATION_CONFIG_READ(rate->capacity))
        return false;
    out_next->words[0] = (value.words[0] & ~RATION_FRAC_MASK) | (used & RATION_FRAC_MASK);
    out_next->words[1] =
        (since_ns + (used >> RATION_FRAC_BITS)) << RATION_FLAGS_BITS | config->established_flags;
    return true;
}

/*
 * Returns which of the four slots of a line have the tag: one bit each, from the line's start. The slots need
 * not be read at the same time: the result only says where to look.
 */
RATION_WITH_AES static ALWAYS_INLINE unsigned tags_in_line(const struct ration_pair *line,
                                                           uint64_t tag)
{
    const __m128i *slots = (const __m128i *)(const void *)line;
    __m128i tags = _mm_set1_epi64x((long long)tag);
    __m128i low = _mm_unpacklo_epi64(_mm_load_si128(slots), _mm_load_si128(slots + 1));
    __m128i high = _mm_unpacklo_epi64(_mm_load_si128(slots + 2), _mm_load_si128(slots + 3));

    low = _mm_cmpeq_epi64(_mm_srli_epi64(low, RATION_FRAC_BITS), tags);
    high = _mm_cmpeq_epi64(_mm_srli_epi64(high, RATION_FRAC_BITS), tags);
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_packs_epi32(low, high)));
}

static ALWAYS_INLINE struct ration_pair *first_line(const struct ration_section *section,
                                                    const struct ration_location *location)
{
    return section->sets + (uint64_t)location->sets[0] * RATION_SET_SLOTS + (location->start & 4u);
}

/* The other lines of a key's two sets, in the order in which they are searched. */
static ALWAYS_INLINE struct ration_pair *other_line(const struct ration_section *section,
                                                    const struct ration_location *location,
                                                    unsigned i)
{
    static const struct {
        uint8_t set, half;
    } order[RATION_OTHER_LINES] = {{0, 4}, {1, 0}, {1, 4}};

    return section->sets + (uint64_t)location->sets[order[i].set] * RATION_SET_SLOTS +
           ((location->start & 4u) ^ order[i].half);
}

/* Returns the key's slot if it is in one of the other lines, or NULL. */
RATION_WITH_AES static __attribute__((noinline)) struct ration_pair *find_elsewhere(
    const struct ration_section *section, const struct ration_location *location)
{
    for (unsigned i = 0; i < RATION_OTHER_LINES; i++) {
        struct ration_pair *line = other_line(section, location, i);
        unsigned matches = tags_in_line(line, location->tag);

        if (matches != 0)
            return line + __builtin_ctz(matches);
    }
    return NULL;
}

/*
 * Takes one token from the slot of a tag. Returns a verdict, or RATION_FAST_MISS if the slot has another tag or
 * generation or the config was replaced.
 */
static ALWAYS_INLINE int take_token(const struct ration_config *config, uint64_t config_number,
                                    uint64_t since_ns, uint64_t tag, struct ration_pair *slot)
{
    struct ration_pair value = ration_atomic16_load_avx(slot);
    struct ration_pair next;

    do {
        /* a slot of this generation is a member, not a claim */
        if (!LIKELY(ration_slot_tag(value) == tag &&
                    ration_slot_generation(value) == config->generation))
            return RATION_FAST_MISS;

        bool allowed = take_step(config, since_ns, value, &next);

        ration_fence_acquire();
        if (!LIKELY(__atomic_load_n(&config->number, __ATOMIC_RELAXED) == config_number))
            return RATION_FAST_MISS;
        if (!LIKELY(allowed))
            return RATION_DENY;
        /* sequentially consistent: pairs with the load above and in ration_plain_find(), and with other swaps */
    } while (!LIKELY(ration_atomic16_swap(slot, &value, next)));
    return RATION_ALLOW;
}

bool ration_fast_simd_possible(const struct ration_section *section)
{
    return ration_section_is_plain(section) && section->block->secret.kind == RATION_HASH_AES &&
           __builtin_cpu_supports("avx");
}

static ALWAYS_INLINE bool count_verdict(struct ration_limiter *limiter, int verdict)
{
    if (LIKELY(verdict == RATION_ALLOW))
        ration_counters_add_allowed(limiter->counts.counters, 0, 1);
    else
        ration_counters_add(limiter->counts.counters, 0, RATION_COUNT_DENIED, 1);
    return verdict == RATION_ALLOW;
}

/* Decides a key that is not in its first line: it is in another line, or absent. */
RATION_WITH_AES static __attribute__((noinline)) bool allow_elsewhere(
    struct ration_limiter *limiter, const struct ration_key *key, uint64_t now_ns)
{
    const struct ration_section *section = limiter->fast_section;
    const struct ration_config *config = ration_config_table_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    struct ration_location location = ration_location_of(
        ration_hash_aes_inline(&section->block->secret, key->bytes, key->size), section->set_count);
    struct ration_pair *slot = find_elsewhere(section, &location);
    int verdict = RATION_FAST_MISS;

    if (slot != NULL && RATION_CONFIG_READ(config->terms.is_simple) && config_number != UINT64_MAX)
        verdict =
            take_token(config, config_number, ration_block_now(limiter->store->epoch_ns, now_ns),
                       location.tag, slot);
    if (verdict == RATION_FAST_MISS)
        return ration_limiter_allow_any(limiter, key, 1, now_ns);
    return count_verdict(limiter, verdict);
}

/*
 * Decides a key in its first line; other cases go to the slower functions. If reads_clock, reads the TSC
 * clock after prefetching the key's line.
 */
RATION_WITH_AES static ALWAYS_INLINE bool allow_in_first_line(struct ration_limiter *limiter,
                                                              const void *request,
                                                              uint64_t cost_tokens, uint64_t now_ns,
                                                              bool reads_clock)
{
    const struct ration_key *key = request;
    const struct ration_config *config = ration_config_table_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    int verdict = RATION_FAST_MISS;

    if (LIKELY(cost_tokens == 1 && RATION_CONFIG_READ(config->terms.is_simple) &&
               config_number != UINT64_MAX && key != NULL &&
               key->size - 1 < RATION_HASH_CHUNK_SIZE && key->bytes != NULL)) {
        const struct ration_section *section = limiter->fast_section;
        struct ration_location location = ration_location_of(
            ration_hash_aes_chunk(&section->block->secret, key->bytes, key->size),
            section->set_count);
        struct ration_pair *line = first_line(section, &location);
        unsigned matches;

        if (reads_clock) {
            __builtin_prefetch(line, 1);
            now_ns = ration_tsc_now(&ration_tsc_shared);
        }
        matches = tags_in_line(line, location.tag);
        if (!LIKELY(matches != 0))
            return allow_elsewhere(limiter, key, now_ns);
        verdict =
            take_token(config, config_number, ration_block_now(limiter->store->epoch_ns, now_ns),
                       location.tag, line + __builtin_ctz(matches));
    } else if (reads_clock) {
        now_ns = ration_tsc_now(&ration_tsc_shared);
    }
    if (!LIKELY(verdict != RATION_FAST_MISS))
        return ration_limiter_allow_any(limiter, request, cost_tokens, now_ns);
    return count_verdict(limiter, verdict);
}

RATION_WITH_AES bool ration_fast_simd_allow(struct ration_limiter *limiter, const void *request,
                                            uint64_t cost_tokens, uint64_t now_ns)
{
    return allow_in_first_line(limiter, request, cost_tokens, now_ns, false);
}

RATION_WITH_AES bool ration_fast_simd_allow_by_tsc(struct ration_limiter *limiter,
                                                   const void *request)
{
    return allow_in_first_line(limiter, request, 1, 0, true);
}

static ALWAYS_INLINE struct ration_location location_at(const struct ration_fast_simd_chunk *chunk,
                                                        size_t i)
{
    return ration_location_of(chunk->hashes[i], chunk->section->set_count);
}

RATION_WITH_AES size_t ration_fast_simd_find(struct ration_fast_simd_chunk *chunk,
                                             const struct ration_batch_item *items,
                                             size_t item_count)
{
    const struct ration_section *section = chunk->section;

    for (size_t i = 0; i < item_count; i++) {
        const struct ration_key *key = items[i].request;
        struct ration_location location;

        if (!LIKELY(key != NULL && key->size <= RATION_KEY_SIZE_MAX && key->bytes != NULL)) {
            item_count = i;
            break;
        }
        chunk->hashes[i] = ration_hash_aes_inline(&section->block->secret, key->bytes, key->size);
        location = location_at(chunk, i);
        chunk->slots[i] = first_line(section, &location);
        __builtin_prefetch(chunk->slots[i], 1);
    }
    for (size_t i = 0; i < item_count; i++) {
        uint64_t tag = chunk->hashes[i].words[0] >> RATION_FRAC_BITS;
        unsigned matches = tags_in_line(chunk->slots[i], tag + (tag == 0));

        chunk->slots[i] = matches != 0 ? chunk->slots[i] + __builtin_ctz(matches) : NULL;
        if (!LIKELY(matches != 0)) {
            struct ration_location location = location_at(chunk, i);

            ration_section_prefetch_rest(section, &location);
        }
    }
    return item_count;
}

static void count_chunk(struct ration_fast_simd_chunk *chunk, uint64_t allowed_count,
                        uint64_t denied_count)
{
    struct ration_counters *counters = chunk->limiter->counts.counters;

    ration_counters_add(counters, 0, RATION_COUNT_ALLOWED, allowed_count);
    ration_counters_add(counters, 0, RATION_COUNT_ALLOWED_TOKENS, allowed_count);
    if (denied_count > 0)
        ration_counters_add(counters, 0, RATION_COUNT_DENIED, denied_count);
}

RATION_WITH_AES size_t ration_fast_simd_take(struct ration_fast_simd_chunk *chunk,
                                             struct ration_batch_item *items, size_t first,
                                             size_t item_count, size_t *allowed)
{
    const struct ration_config *config = chunk->config;
    uint64_t config_number = chunk->config_number;
    uint64_t since_ns = chunk->since_ns;
    uint64_t denied_count = 0;
    size_t i;

    for (i = first; i < item_count; i++) {
        uint64_t tag = chunk->hashes[i].words[0] >> RATION_FRAC_BITS;
        struct ration_pair *slot = chunk->slots[i];
        int verdict;

        if (!LIKELY(slot != NULL)) {
            struct ration_location location = location_at(chunk, i);

            slot = find_elsewhere(chunk->section, &location);
        }
        if (!LIKELY(slot != NULL && items[i].cost_tokens == 1))
            break;
        verdict = take_token(config, config_number, since_ns, tag + (tag == 0), slot);
        if (!LIKELY(verdict != RATION_FAST_MISS))
            break;
        items[i].verdict = (enum ration_verdict)verdict;
        items[i].status = RATION_OK;
        denied_count += verdict != RATION_ALLOW;
    }
    *allowed += i - first - denied_count;
    count_chunk(chunk, i - first - denied_count, denied_count);
    return i;
}

#else

bool ration_fast_simd_possible(const struct ration_section *section)
{
    (void)section;
    return false;
}

bool ration_fast_simd_allow(struct ration_limiter *limiter, const void *request,
                            uint64_t cost_tokens, uint64_t now_ns)
{
    return ration_limiter_allow_any(limiter, request, cost_tokens, now_ns);
}

bool ration_fast_simd_allow_by_tsc(struct ration_limiter *limiter, const void *request)
{
    return ration_limiter_allow_any(limiter, request, 1, ration_clock_now(&limiter->clock));
}

size_t ration_fast_simd_find(struct ration_fast_simd_chunk *chunk,
                             const struct ration_batch_item *items, size_t item_count)
{
    (void)chunk, (void)items, (void)item_count;
    return 0;
}

size_t ration_fast_simd_take(struct ration_fast_simd_chunk *chunk, struct ration_batch_item *items,
                             size_t first, size_t item_count, size_t *allowed)
{
    (void)chunk, (void)items, (void)item_count, (void)allowed;
    return first;
}

#endif
