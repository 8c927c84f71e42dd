#include "limiter/quick_line.h"

#include "base/fence.h"
#include "base/hash_aes.h"
#include "base/tsc.h"
#include "limiter/quick.h"
#include "table/plain.h"

#if defined(__x86_64__) && !defined(RATION_UNDER_TSAN)

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x)     __builtin_expect(!!(x), 1)

#define RATION_OTHER_LINES 3u

/* gcra.h's step for one token, for capacities that do not fit one word. */
static __attribute__((noinline)) bool step_long(const struct ration_config *config,
                                                uint64_t since_ns, struct ration_pair value,
                                                struct ration_pair *out_next)
{
    struct ration_rate rate = ration_config_read_rate(&config->rules[0].limit.rate);
    struct ration_time now = ration_time_from_ns(since_ns);
    struct ration_time next =
        ration_time_add(ration_time_max(ration_pair_moment(value), now), rate.token);

    if (ration_time_less(ration_time_add(now, rate.capacity), next))
        return false;
    *out_next = ration_slot_pack(
        (struct ration_slot){ration_pair_label(value), config->established_mark, next});
    return true;
}

/*
 * gcra.h's step for one token: what the bucket owes at now, in 2^-20 ns, and with the token. False:
 * more than it holds.
 */
static ALWAYS_INLINE bool step(const struct ration_config *config, uint64_t since_ns,
                               struct ration_pair value, struct ration_pair *out_next)
{
    const struct ration_config_short *rate = &config->terms.in_short;
    uint64_t ns = value.words[1] >> RATION_MARK_BITS;
    uint64_t owed = RATION_CONFIG_READ(rate->token);

    if (!LIKELY(RATION_CONFIG_READ(config->terms.is_short)))
        return step_long(config, since_ns, value, out_next);
    if (ns >= since_ns) { /* not full */
        if (ns - since_ns > RATION_CONFIG_READ(rate->capacity_ns))
            return false;
        owed += (ns - since_ns) << RATION_FRAC_BITS | (value.words[0] & RATION_FRAC_MASK);
    }
    if (owed > RATION_CONFIG_READ(rate->capacity))
        return false;
    out_next->words[0] = (value.words[0] & ~RATION_FRAC_MASK) | (owed & RATION_FRAC_MASK);
    out_next->words[1] =
        (since_ns + (owed >> RATION_FRAC_BITS)) << RATION_MARK_BITS | config->established_mark;
    return true;
}

/*
 * Which of the four slots that a key looks at first has its tag: a bit each, from the line's start.
 * What is read need not be of one moment: it only says where to look.
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

static ALWAYS_INLINE struct ration_pair *line_of(const struct ration_section *section,
                                                 const struct ration_place *place)
{
    return section->sets + (uint64_t)place->sets[0] * RATION_SET_PLACES + (place->start & 4u);
}

/* The other lines of a key's two sets, in the order of looking. */
static ALWAYS_INLINE struct ration_pair *other_line(const struct ration_section *section,
                                                    const struct ration_place *place, unsigned i)
{
    static const struct {
        uint8_t set, half;
    } order[RATION_OTHER_LINES] = {{0, 4}, {1, 0}, {1, 4}};

    return section->sets + (uint64_t)place->sets[order[i].set] * RATION_SET_PLACES +
           ((place->start & 4u) ^ order[i].half);
}

/* The key's slot, if it is in one of them. */
RATION_WITH_AES static __attribute__((noinline)) struct ration_pair *find_elsewhere(
    const struct ration_section *section, const struct ration_place *place)
{
    for (unsigned i = 0; i < RATION_OTHER_LINES; i++) {
        struct ration_pair *line = other_line(section, place, i);
        unsigned found = tags_in_line(line, place->tag);

        if (found != 0)
            return line + __builtin_ctz(found);
    }
    return NULL;
}

/* Takes one token from the slot of a tag: a verdict, or RATION_QUICK_NOT if it is another's. */
static ALWAYS_INLINE int take(const struct ration_config *config, uint64_t config_number,
                              uint64_t since_ns, uint64_t tag, struct ration_pair *slot)
{
    struct ration_pair value = ration_atomic16_load_avx(slot);
    struct ration_pair next;

    do {
        /* of this generation: then it is a member, and no claim */
        if (!LIKELY(ration_pair_label(value) == tag &&
                    ration_pair_generation(value) == config->generation))
            return RATION_QUICK_NOT;

        bool allowed = step(config, since_ns, value, &next);

        ration_fence_acquire();
        if (!LIKELY(__atomic_load_n(&config->number, __ATOMIC_RELAXED) == config_number))
            return RATION_QUICK_NOT;
        if (!LIKELY(allowed))
            return RATION_DENY;
        /* sequentially consistent: pairs with the loads that find slots, and with itself */
    } while (!LIKELY(ration_atomic16_swap(slot, &value, next)));
    return RATION_ALLOW;
}

bool ration_quick_line_possible(const struct ration_section *section)
{
    return ration_section_is_plain(section) && section->block->secret.kind == RATION_HASH_AES &&
           __builtin_cpu_supports("avx");
}

static ALWAYS_INLINE bool told(struct ration_limiter *limiter, int verdict)
{
    if (LIKELY(verdict == RATION_ALLOW))
        ration_counters_add_allowed(limiter->tally.counters, 0, 1);
    else
        ration_counters_add(limiter->tally.counters, 0, RATION_COUNT_DENIED, 1);
    return verdict == RATION_ALLOW;
}

/* A key that is not in the line that it is looked for first: in another, or absent. */
RATION_WITH_AES static __attribute__((noinline)) bool allow_elsewhere(
    struct ration_limiter *limiter, const struct ration_key *key, uint64_t now_ns)
{
    const struct ration_section *section = limiter->quick_section;
    const struct ration_config *config = ration_configs_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    struct ration_place place = ration_place_of(
        ration_hash_aes_inline(&section->block->secret, key->bytes, key->size), section->set_count);
    struct ration_pair *slot = find_elsewhere(section, &place);
    int verdict = RATION_QUICK_NOT;

    if (slot != NULL && RATION_CONFIG_READ(config->terms.is_simple) && config_number != UINT64_MAX)
        verdict = take(config, config_number, ration_block_now(limiter->store->epoch_ns, now_ns),
                       place.tag, slot);
    if (verdict == RATION_QUICK_NOT)
        return ration_limiter_allow_any(limiter, key, 1, now_ns);
    return told(limiter, verdict);
}

/* Reads the clock, if it is to be read, when the key's line is on its way. */
RATION_WITH_AES static ALWAYS_INLINE bool allow(struct ration_limiter *limiter, const void *request,
                                                uint64_t cost_tokens, uint64_t now_ns,
                                                bool reads_clock)
{
    const struct ration_key *key = request;
    const struct ration_config *config = ration_configs_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    int verdict = RATION_QUICK_NOT;

    if (LIKELY(cost_tokens == 1 && RATION_CONFIG_READ(config->terms.is_simple) &&
               config_number != UINT64_MAX && key != NULL &&
               key->size - 1 < RATION_HASH_CHUNK_SIZE && key->bytes != NULL)) {
        const struct ration_section *section = limiter->quick_section;
        struct ration_place place =
            ration_place_of(ration_hash_aes_chunk(&section->block->secret, key->bytes, key->size),
                            section->set_count);
        struct ration_pair *line = line_of(section, &place);
        unsigned found;

        if (reads_clock) {
            __builtin_prefetch(line, 1);
            now_ns = ration_tsc_now(&ration_tsc_shared);
        }
        found = tags_in_line(line, place.tag);
        if (!LIKELY(found != 0))
            return allow_elsewhere(limiter, key, now_ns);
        verdict = take(config, config_number, ration_block_now(limiter->store->epoch_ns, now_ns),
                       place.tag, line + __builtin_ctz(found));
    } else if (reads_clock) {
        now_ns = ration_tsc_now(&ration_tsc_shared);
    }
    if (!LIKELY(verdict != RATION_QUICK_NOT))
        return ration_limiter_allow_any(limiter, request, cost_tokens, now_ns);
    return told(limiter, verdict);
}

RATION_WITH_AES bool ration_quick_line_allow(struct ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t now_ns)
{
    return allow(limiter, request, cost_tokens, now_ns, false);
}

RATION_WITH_AES bool ration_quick_line_allow_by_tsc(struct ration_limiter *limiter,
                                                    const void *request)
{
    return allow(limiter, request, 1, 0, true);
}

static ALWAYS_INLINE struct ration_place place_at(const struct ration_line_chunk *chunk, size_t i)
{
    return ration_place_of(chunk->hashes[i], chunk->section->set_count);
}

RATION_WITH_AES size_t ration_quick_line_find(struct ration_line_chunk *chunk,
                                              const struct ration_batch_item *items,
                                              size_t item_count)
{
    const struct ration_section *section = chunk->section;

    for (size_t i = 0; i < item_count; i++) {
        const struct ration_key *key = items[i].request;
        struct ration_place place;

        if (!LIKELY(key != NULL && key->size <= RATION_KEY_SIZE_MAX && key->bytes != NULL)) {
            item_count = i;
            break;
        }
        chunk->hashes[i] = ration_hash_aes_inline(&section->block->secret, key->bytes, key->size);
        place = place_at(chunk, i);
        chunk->slots[i] = line_of(section, &place);
        __builtin_prefetch(chunk->slots[i], 1);
    }
    for (size_t i = 0; i < item_count; i++) {
        uint64_t tag = chunk->hashes[i].words[0] >> RATION_FRAC_BITS;
        unsigned found = tags_in_line(chunk->slots[i], tag + (tag == 0));

        chunk->slots[i] = found != 0 ? chunk->slots[i] + __builtin_ctz(found) : NULL;
        if (!LIKELY(found != 0)) {
            struct ration_place place = place_at(chunk, i);

            ration_section_prefetch_rest(section, &place);
        }
    }
    return item_count;
}

static void count(struct ration_line_chunk *chunk, uint64_t allowed_count, uint64_t denied_count)
{
    struct ration_counters *counters = chunk->limiter->tally.counters;

    ration_counters_add(counters, 0, RATION_COUNT_ALLOWED, allowed_count);
    ration_counters_add(counters, 0, RATION_COUNT_ALLOWED_TOKENS, allowed_count);
    if (denied_count > 0)
        ration_counters_add(counters, 0, RATION_COUNT_DENIED, denied_count);
}

RATION_WITH_AES size_t ration_quick_line_take(struct ration_line_chunk *chunk,
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
            struct ration_place place = place_at(chunk, i);

            slot = find_elsewhere(chunk->section, &place);
        }
        if (!LIKELY(slot != NULL && items[i].cost_tokens == 1))
            break;
        verdict = take(config, config_number, since_ns, tag + (tag == 0), slot);
        if (!LIKELY(verdict != RATION_QUICK_NOT))
            break;
        items[i].verdict = (enum ration_verdict)verdict;
        items[i].status = RATION_OK;
        denied_count += verdict != RATION_ALLOW;
    }
    *allowed += i - first - denied_count;
    count(chunk, i - first - denied_count, denied_count);
    return i;
}

#else

bool ration_quick_line_possible(const struct ration_section *section)
{
    (void)section;
    return false;
}

bool ration_quick_line_allow(struct ration_limiter *limiter, const void *request,
                             uint64_t cost_tokens, uint64_t now_ns)
{
    return ration_limiter_allow_any(limiter, request, cost_tokens, now_ns);
}

bool ration_quick_line_allow_by_tsc(struct ration_limiter *limiter, const void *request)
{
    return ration_limiter_allow_any(limiter, request, 1, ration_clock_now(&limiter->clock));
}

size_t ration_quick_line_find(struct ration_line_chunk *chunk,
                              const struct ration_batch_item *items, size_t item_count)
{
    (void)chunk, (void)items, (void)item_count;
    return 0;
}

size_t ration_quick_line_take(struct ration_line_chunk *chunk, struct ration_batch_item *items,
                              size_t first, size_t item_count, size_t *allowed)
{
    (void)chunk, (void)items, (void)item_count, (void)allowed;
    return first;
}

#endif
