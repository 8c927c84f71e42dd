#include "redis/runs.h"

#include "limiter/log.h"
#include "ration/limit.h"
#include "redis/numbers.h"

/* Reading --------------------------------------------------------------------------------------- */

static bool read_run(const char **at, const char *end, uint64_t *out_moment_ns, uint64_t *out_count)
{
    uint64_t seconds, ns;

    if (!ration_redis_number_read(at, end, &seconds) || !ration_redis_number_read(at, end, &ns) ||
        !ration_redis_number_read(at, end, out_count) ||
        !ration_redis_numbers_fit(seconds, ns, RATION_NS_PER_SECOND))
        return false;
    *out_moment_ns = seconds * RATION_NS_PER_SECOND + ns;
    return true;
}

static void rewind_runs(struct ration_redis_runs *runs)
{
    runs->next = runs->begin;
    runs->first_index = runs->past_count;
    runs->count = 0;
}

/* The ring begins at its head, so the index is how many are older. */
static uint64_t read_moment(const struct ration_log_reader *reader, uint64_t index)
{
    struct ration_redis_runs *runs = (struct ration_redis_runs *)(uintptr_t)reader->context;

    if (index < runs->past_count)
        return 0;
    if (index < runs->first_index)
        rewind_runs(runs);
    while (index >= runs->first_index + runs->count && runs->next < runs->end) {
        runs->first_index += runs->count;
        if (!read_run(&runs->next, runs->end, &runs->moment_ns, &runs->count))
            break; /* it was read before, so it can be */
    }
    return runs->moment_ns;
}

static void adopt(struct ration_redis_runs *runs, struct ration_any *any, uint64_t newest_ns)
{
    any->state.log = (struct ration_log_head){.newest_ns = newest_ns, .head_index = 0};
    any->reader = (struct ration_log_reader){.read = read_moment, .context = runs};
    any->write = (struct ration_log_write){0};
}

bool ration_redis_runs_read(const char *text, size_t size, struct ration_redis_runs *runs,
                            struct ration_any *any, size_t *out_size)
{
    const char *at = text, *end = text + size;
    uint64_t total = 0, newest_ns = 0;

    while (at < end && *at >= '0' && *at <= '9') {
        uint64_t moment_ns, count;

        if (!read_run(&at, end, &moment_ns, &count) || moment_ns < newest_ns ||
            count > any->limit->tokens - total)
            return false;
        newest_ns = moment_ns;
        total += count;
    }
    if (at == text || at == end)
        return false;
    *runs = (struct ration_redis_runs){
        .begin = text, .end = at, .past_count = any->limit->tokens - total};
    rewind_runs(runs);
    adopt(runs, any, newest_ns);
    *out_size = (size_t)(at - text);
    return true;
}

void ration_redis_runs_begin(struct ration_redis_runs *runs, struct ration_any *any)
{
    *runs = (struct ration_redis_runs){
        .past_count = any->limit->tokens - any->write.count,
        .first_index = any->limit->tokens - any->write.count,
        .count = any->write.count,
        .moment_ns = any->write.moment_ns,
    };
    adopt(runs, any, any->state.log.newest_ns);
}

/* Writing --------------------------------------------------------------------------------------- */

static void write_run(struct ration_output *text, uint64_t moment_ns, uint64_t count)
{
    ration_output_append_u64(text, moment_ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, moment_ns % RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, count);
}

void ration_redis_runs_write(const struct ration_any *any, struct ration_output *text)
{
    uint64_t moment_ns = 0, count = 0;
    bool is_first = true;

    for (uint64_t i = 0; i <= any->limit->tokens; i++) {
        uint64_t next_ns = i < any->limit->tokens ? ration_log_moment(any, i) : UINT64_MAX;

        if (next_ns != moment_ns && moment_ns > 0) {
            if (!is_first)
                ration_output_append_byte(text, ' ');
            write_run(text, moment_ns, count);
            is_first = false;
        }
        count = next_ns == moment_ns ? count + 1 : 1;
        moment_ns = next_ns;
    }
    if (is_first)
        write_run(text, 0, 0);
}
