#include "limiter/snapshot/saved.h"

#include <stdlib.h>

#include "table/block.h"

/* A table has no more keys per set than a set has slots, and at most this many sets per key plus a few. */
#define SETS_PER_KEY_MAX 1
#define SETS_EXTRA       2

static void put_rule(struct ration_chunk_writer *writer, const struct ration_saved_rule *rule)
{
    const struct ration_limit *limit = &rule->limit;

    ration_chunks_put(writer, limit->algorithm, 4);
    ration_chunks_put(writer, limit->refill, 4);
    ration_chunks_put(writer, limit->tokens, 8);
    ration_chunks_put(writer, limit->period_ns, 8);
    ration_chunks_put(writer, limit->burst, 8);
    ration_chunks_put(writer, limit->start_tokens, 8);
    ration_chunks_put(writer, limit->reserve_tokens, 8);
    ration_chunks_put(writer, limit->reserve_period_ns, 8);
    ration_chunks_put(writer, limit->reserve_burst, 8);
    ration_chunks_put(writer, rule->stale_after_ns, 8);
}

static void get_rule(struct ration_chunk_reader *reader, struct ration_saved_rule *out_rule)
{
    struct ration_limit_spec spec = {.start = RATION_START_TOKENS};

    spec.algorithm = (enum ration_algorithm)ration_chunks_get(reader, 4);
    spec.refill = (enum ration_refill)ration_chunks_get(reader, 4);
    spec.tokens = ration_chunks_get(reader, 8);
    spec.period_ns = ration_chunks_get(reader, 8);
    spec.burst = ration_chunks_get(reader, 8);
    spec.start_tokens = ration_chunks_get(reader, 8);
    spec.reserve_tokens = ration_chunks_get(reader, 8);
    spec.reserve_period_ns = ration_chunks_get(reader, 8);
    spec.reserve_burst = ration_chunks_get(reader, 8);
    out_rule->stale_after_ns = ration_chunks_get(reader, 8);
    if (reader->status != RATION_OK)
        return;
    if (spec.algorithm == RATION_ALGORITHM_DEFAULT || spec.burst == 0 ||
        out_rule->stale_after_ns > RATION_REMEMBERED_NS_MAX ||
        ration_limit_make(&spec, &out_rule->limit, NULL) != RATION_OK)
        ration_chunks_refuse(reader, "one of its limits is not valid");
}

static void put_limiter(struct ration_chunk_writer *writer,
                        const struct ration_saved_limiter *limiter)
{
    ration_chunks_put(writer, limiter->keys_max, 8);
    ration_chunks_put(writer, limiter->set_count, 4);
    ration_chunks_put(writer, limiter->rule_count, 4);
    for (uint32_t i = 0; i < limiter->rule_count; i++)
        put_rule(writer, &limiter->rules[i]);
}

static void get_limiter(struct ration_chunk_reader *reader,
                        struct ration_saved_limiter *out_limiter)
{
    out_limiter->keys_max = ration_chunks_get(reader, 8);
    out_limiter->set_count = (uint32_t)ration_chunks_get(reader, 4);
    out_limiter->rule_count = (uint32_t)ration_chunks_get(reader, 4);
    if (out_limiter->rule_count == 0 || out_limiter->rule_count > RATION_RULES_MAX) {
        ration_chunks_refuse(reader, "one of its limiters has no rules, or too many");
        out_limiter->rule_count = 0;
    }
    if (out_limiter->keys_max == 0 || out_limiter->keys_max > RATION_SECTION_KEYS_MAX ||
        out_limiter->set_count < 2 ||
        out_limiter->set_count < out_limiter->keys_max / RATION_SET_SLOTS ||
        out_limiter->set_count > out_limiter->keys_max * SETS_PER_KEY_MAX + SETS_EXTRA)
        ration_chunks_refuse(reader, "its number of sets does not fit its number of keys");
    for (uint32_t i = 0; i < out_limiter->rule_count; i++)
        get_rule(reader, &out_limiter->rules[i]);
}

void ration_saved_put_header(struct ration_chunk_writer *writer,
                             const struct ration_saved_header *header)
{
    ration_chunks_put(writer, header->wall_ns, 8);
    ration_chunks_put(writer, header->now_ns, 8);
    ration_chunks_put_bytes(writer, header->seed, sizeof(header->seed));
    ration_chunks_put(writer, header->hash_kind, 4);
    ration_chunks_put(writer, header->limiter_count, 4);
    for (uint32_t i = 0; i < header->limiter_count; i++)
        put_limiter(writer, &header->limiters[i]);
}

/* Memory grows with the data that is read, whatever count the header announces. */
static void get_limiters(struct ration_chunk_reader *reader, struct ration_saved_header *header)
{
    uint32_t limiters_max = 0;

    header->limiters = NULL;
    for (uint32_t i = 0; i < header->limiter_count && reader->status == RATION_OK; i++) {
        if (i == limiters_max) {
            struct ration_saved_limiter *larger;

            limiters_max = limiters_max > 0 ? 2 * limiters_max : 8;
            larger = realloc(header->limiters, limiters_max * sizeof(*larger));
            if (larger == NULL) {
                reader->status = RATION_ENOMEM;
                reader->reason = "there is no memory for its limiters";
                break;
            }
            header->limiters = larger;
        }
        get_limiter(reader, &header->limiters[i]);
    }
    if (reader->status != RATION_OK) {
        free(header->limiters);
        header->limiters = NULL;
    }
}

void ration_saved_get_header(struct ration_chunk_reader *reader,
                             struct ration_saved_header *out_header)
{
    out_header->wall_ns = ration_chunks_get(reader, 8);
    out_header->now_ns = ration_chunks_get(reader, 8);
    ration_chunks_get_bytes(reader, out_header->seed, sizeof(out_header->seed));
    out_header->hash_kind = (uint32_t)ration_chunks_get(reader, 4);
    out_header->limiter_count = (uint32_t)ration_chunks_get(reader, 4);
    if (out_header->limiter_count == 0 || out_header->limiter_count > RATION_STACK_MAX) {
        ration_chunks_refuse(reader, "it has no limiters, or too many");
        out_header->limiter_count = 0;
    }
    get_limiters(reader, out_header);
}

void ration_saved_put_record(struct ration_chunk_writer *writer,
                             const struct ration_saved_record *record)
{
    ration_chunks_put(writer, record->kind, 2);
    ration_chunks_put(writer, record->limiter_index, 2);
    ration_chunks_put(writer, record->set_index, 4);
    ration_chunks_put(writer, record->word, 8);
}

void ration_saved_get_record(struct ration_chunk_reader *reader,
                             const struct ration_saved_header *header,
                             struct ration_saved_record *out_record)
{
    uint64_t kind = ration_chunks_get(reader, 2);

    out_record->limiter_index = (uint32_t)ration_chunks_get(reader, 2);
    out_record->set_index = (uint32_t)ration_chunks_get(reader, 4);
    out_record->word = ration_chunks_get(reader, 8);
    if (kind < RATION_SAVED_KEY || kind > RATION_SAVED_END) {
        ration_chunks_refuse(reader, "it has a record of an unknown kind");
        kind = RATION_SAVED_END;
    }
    out_record->kind = (enum ration_saved_kind)kind;
    if (out_record->limiter_index >= header->limiter_count) {
        ration_chunks_refuse(reader, "it has a record of a limiter that it does not contain");
        return;
    }
    if (out_record->set_index >= header->limiters[out_record->limiter_index].set_count)
        ration_chunks_refuse(reader, "it has a record of a set that its limiter does not have");
    uint64_t tag = out_record->word & ~RATION_SAVED_ESTABLISHED;

    if (kind == RATION_SAVED_KEY && (tag == 0 || tag >> RATION_TAG_BITS != 0))
        ration_chunks_refuse(reader, "it has a key with an invalid tag");
    if (kind == RATION_SAVED_WATERMARK && out_record->word > RATION_SAVED_DURATION_NS_MAX)
        ration_chunks_refuse(reader, "it has a time that is too long");
}

struct ration_saved_time ration_saved_time(const struct ration_saved_header *header,
                                           uint64_t now_ns, uint64_t wall_ns)
{
    uint64_t by_wall = wall_ns > header->wall_ns ? wall_ns - header->wall_ns : 0;
    uint64_t by_clock = now_ns > header->now_ns ? now_ns - header->now_ns : 0;
    uint64_t apart = by_wall > by_clock ? by_wall - by_clock : by_clock - by_wall;
    bool is_same_clock = now_ns >= header->now_ns && apart <= RATION_SAVED_SAME_CLOCK_NS;

    return (struct ration_saved_time){now_ns, is_same_clock ? by_clock : by_wall};
}

uint64_t ration_saved_left_ns(struct ration_saved_time time, uint64_t duration_ns)
{
    return duration_ns > time.age_ns ? duration_ns - time.age_ns : 0;
}
