/*
 * An engine that is saved and loaded answers as if it had never stopped, or as if it had been reloaded. Anything that is
 * not the state of an engine is refused, and nothing of it is loaded.
 */
#include "base/wall.h"
#include "support/saved_dump.h"
#include "unit/engine/engine_kit.h"

/* The time of day, in place of base/wall.c's. */
static uint64_t wall_ns = 1700000000 * SECOND;

uint64_t ration_wall_now(void)
{
    return wall_ns;
}

static struct saved_bytes save(struct engine_kit *kit)
{
    struct saved_bytes bytes = {0};

    assert_int_equal(ration_engine_save(kit->engine, kit->manual.ns, saved_write, &bytes),
                     RATION_OK);
    return bytes;
}

/* An engine by the same clock, under a policy of its own. */
static ration_engine *load(struct engine_kit *kit, struct saved_bytes *bytes, const char *text)
{
    struct ration_error error = {.message = ""};
    ration_engine *loaded = NULL;

    bytes->at = 0;
    if (ration_engine_load(&kit->options, engine_kit_policy(text), saved_read, bytes, &loaded,
                           &error) != RATION_OK)
        fail_msg("%s", error.message);
    return loaded;
}

/* Saves, lets both clocks advance, and continues with the loaded engine. */
static void go_away(struct engine_kit *kit, uint64_t wall_passed_ns, uint64_t clock_passed_ns,
                    const char *text)
{
    struct saved_bytes bytes = save(kit);

    engine_kit_close(kit);
    wall_ns += wall_passed_ns;
    kit->manual.ns += clock_passed_ns;
    kit->engine = load(kit, &bytes, text);
    free(bytes.data);
}

static struct ration_decision throttle(struct engine_kit *kit, uint64_t cost_tokens)
{
    struct ration_key key = RATION_KEY("k");
    struct ration_limit limit = kit_limit("10/h");
    struct ration_decision decision;
    struct ration_batch_item item = {
        .request = &key, .cost_tokens = cost_tokens, .limit = &limit, .decision = &decision};

    ration_limiter_take_batch(ration_engine_inline_limiter(kit->engine), &item, 1, kit->manual.ns);
    assert_int_equal(item.status, RATION_OK);
    return decision;
}

/* Every kind of limit, each behind a path of its own. */
static const char all_kinds[] =
    "limits:\n"
    "  - {name: bucket, match: {path: /0}, key: ip, rate: 10/h, max_keys: 100}\n"
    "  - {name: interval, match: {path: /1}, key: ip, rate: 10/h, refill: interval, max_keys: "
    "100}\n"
    "  - {name: queue, match: {path: /2}, key: ip, rate: 10/h, algorithm: leaky_queue, max_keys: "
    "100}\n"
    "  - {name: window, match: {path: /3}, key: ip, rate: 10/h, algorithm: fixed_window, max_keys: "
    "100}\n"
    "  - {name: slide, match: {path: /4}, key: ip, rate: 10/h, algorithm: sliding_window, "
    "max_keys: "
    "100}\n"
    "  - {name: log, match: {path: /5}, key: ip, rate: 10/h, algorithm: sliding_log, max_keys: "
    "100}\n"
    "  - {name: reserve, match: {path: /6}, key: ip, rate: 5/h, reserve: 3/d burst 5, max_keys: "
    "100}\n"
    "  - {name: empty, match: {path: /7}, key: ip, rate: 10/h, start: empty, max_keys: 100}\n"
    "  - {name: shadow, match: {path: /8}, key: ip, rate: 10/h, shadow: true, max_keys: 100}\n"
    "  - {name: deny, match: {path: /9}, key: ip, rate: 1/h, max_keys: 1, overflow: deny}\n";

#define PATH_COUNT 10
#define KEY_COUNT  30

static const char *request_of(char *room, size_t room_size, int path, int key)
{
    snprintf(room, room_size, "path=/%d ip=192.0.2.%d", path, key);
    return room;
}

static void block(struct engine_kit *kit, const char *text, const char *limit_name,
                  uint64_t until_ns)
{
    struct engine_kit_request request;
    struct ration_admin_op who = {.limit_name = limit_name};

    engine_kit_request(&request, text);
    who.attributes = request.attributes;
    who.attribute_count = request.count;
    assert_int_equal(ration_engine_block_until(kit->engine, &who, until_ns, kit->manual.ns, NULL),
                     RATION_OK);
}

static void act(struct engine_kit *kit)
{
    char room[64];

    for (int path = 0; path < PATH_COUNT; path++)
        for (int key = 0; key < KEY_COUNT; key++)
            for (int i = 0; i < key % 13; i++) {
                engine_kit_check(kit, request_of(room, sizeof(room), path, key));
                kit->manual.ns += 1234567;
            }
    for (int path = 0; path < 7; path++)
        for (int key = 2; key < KEY_COUNT; key += 7)
            block(kit, request_of(room, sizeof(room), path, key), NULL,
                  kit->manual.ns + (uint64_t)key * 20 * SECOND);
    throttle(kit, 4);
}

/* Whether two engines decide every request alike; prints the differences. */
static void assert_same_answers(struct engine_kit *kit, ration_engine *one, ration_engine *other)
{
    char room[64];

    for (int path = 0; path < PATH_COUNT; path++)
        for (int key = 0; key < KEY_COUNT; key++)
            for (uint64_t cost = 1; cost < 12; cost += 3) {
                const char *text = request_of(room, sizeof(room), path, key);
                struct ration_check a, b;

                kit->engine = other;
                b = engine_kit_ask(kit, text, cost, 1);
                kit->engine = one;
                a = engine_kit_ask(kit, text, cost, 1);
                assert_int_equal(a.status, b.status);
                assert_int_equal(a.part_count, b.part_count);
                if (a.decision.verdict != b.decision.verdict ||
                    a.decision.remaining != b.decision.remaining ||
                    a.decision.retry_after_ns != b.decision.retry_after_ns ||
                    a.decision.reset_after_ns != b.decision.reset_after_ns ||
                    a.decision.delay_ns != b.decision.delay_ns)
                    fail_msg("%s, %llu tokens: %llu left, not %llu", text, (unsigned long long)cost,
                             (unsigned long long)b.decision.remaining,
                             (unsigned long long)a.decision.remaining);
            }
}

static void every_kind_continues_where_it_was(void **state)
{
    static const uint64_t ages_ns[] = {0, 1, 12345678, 360 * SECOND, 4000 * SECOND};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(ages_ns); i++) {
        struct saved_bytes bytes;
        ration_engine *loaded;
        struct engine_kit kit;

        engine_kit_open(&kit, all_kinds);
        act(&kit);
        bytes = save(&kit);
        wall_ns += ages_ns[i];
        kit.manual.ns += ages_ns[i];
        loaded = load(&kit, &bytes, all_kinds);
        assert_same_answers(&kit, kit.engine, loaded);
        ration_engine_free(loaded);
        engine_kit_close(&kit);
        free(bytes.data);
    }
}

/* The clock starts again, as after a reboot: only the wall clock shows the time that passed. */
static void tokens_refill_by_wall_time_if_the_clock_starts_again(void **state)
{
    static const char text[] = "limits: [{name: a, key: ip, rate: 10/h}]";
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, text);
    engine_kit_ask(&kit, "ip=192.0.2.1", 7, 0);
    assert_int_equal(throttle(&kit, 7).remaining, 3);
    go_away(&kit, 720 * SECOND, 30 * SECOND - kit.manual.ns, text);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 5);
    assert_int_equal(throttle(&kit, 1).remaining, 4);
    go_away(&kit, 0, 720 * SECOND, text); /* the running clock is off by more than a second */
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 5);
    go_away(&kit, 720 * SECOND, 720 * SECOND, text);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 7);
    assert_int_equal(throttle(&kit, 0).remaining, 6);
    engine_kit_close(&kit);
}

/* Of all_kinds: what a reload makes of buckets, a load does. */
static const char *const others[] = {
    "limits: [{name: bucket, match: {path: /0}, key: ip, rate: 20/h, max_keys: 100}]",
    "limits: [{name: bucket, match: {path: /0}, key: ip, rate: 20/h, burst: 5, max_keys: 100}, "
    "{name: new, match: {path: /1}, key: ip, rate: 3/h}]",
    "limits: [{name: log, match: {path: /5}, key: ip, rate: 9/h, algorithm: sliding_log, max_keys: "
    "100}, {name: bucket, match: {path: /0}, key: ip, rate: 10/h, max_keys: 100}]",
    "limits: [{name: log, match: {path: /0}, key: ip, rate: 10/h, max_keys: 100}, "
    "{name: bucket, match: {path: /1}, key: ip, rate: 10/h, algorithm: sliding_log, max_keys: "
    "100}]",
    "limits: [{name: bucket, match: {path: /0}, key: path, rate: 10/h, max_keys: 100}, "
    "{name: window, match: {path: /3}, key: ip, ipv6_prefix: 56, rate: 10/h, max_keys: 100}]",
    "limits: [{name: bucket, match: {path: /0}, key: ip, rate: 10/h, max_keys: 101}]",
    "limits: [{name: shadow, match: {path: /8}, key: ip, rate: 10/h, max_keys: 100}, "
    "{name: bucket, match: {path: /0}, key: ip, rate: 10/h, max_keys: 100, shadow: true}]",
    "limits: [{name: deny, match: {path: /9}, key: ip, rate: 1/h, max_keys: 1, overflow: allow}]",
    "limits: [{name: window, match: {path: /0}, key: ip, rate: 10/h, max_keys: 100}, "
    "{name: bucket, match: {path: /3}, key: ip, rate: 10/h, algorithm: fixed_window, max_keys: "
    "100}, "
    "{name: queue, match: {path: /2}, key: ip, rate: 10/h, max_keys: 100}]",
    "limits: [{name: empty, match: {path: /7}, key: ip, rate: 10/h, max_keys: 100, stale_after: "
    "2h}]",
};

static void under_another_policy_it_is_as_if_reloaded(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(others); i++) {
        struct saved_bytes bytes;
        ration_engine *loaded;
        struct engine_kit kit;

        engine_kit_open(&kit, all_kinds);
        act(&kit);
        bytes = save(&kit);
        loaded = load(&kit, &bytes, others[i]);
        engine_kit_reload(&kit, others[i]);
        assert_same_answers(&kit, kit.engine, loaded);
        /* what was removed is still known, and comes back */
        engine_kit_reload(&kit, all_kinds);
        assert_int_equal(
            ration_engine_reload(loaded, engine_kit_policy(all_kinds), NULL, NULL, NULL),
            RATION_OK);
        assert_same_answers(&kit, kit.engine, loaded);
        ration_engine_free(loaded);
        engine_kit_close(&kit);
        free(bytes.data);
    }
}

/* R1: a reload that failed has left a limiter of the same name, and nothing in it. */
static void the_remains_of_a_failed_reload_are_not_in_use(void **state)
{
    static const char text[] =
        "limits: [{name: a, key: ip, rate: 10/h, algorithm: sliding_log, max_keys: 100}]";
    ration_policy *too_large = engine_kit_policy(
        "limits: [{name: a, key: ip, rate: 20/h, algorithm: sliding_log, max_keys: 100}, "
        "{name: b, key: ip, rate: 20/h, max_keys: 1000000000}]");
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, text);
    engine_kit_ask(&kit, "ip=192.0.2.1", 7, 0);
    assert_int_equal(ration_engine_reload(kit.engine, too_large, NULL, NULL, NULL), RATION_ENOMEM);
    ration_policy_free(too_large);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 3);
    go_away(&kit, 0, 0, text);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 3);
    engine_kit_close(&kit);
}

static void saved_again_it_is_the_same_state(void **state)
{
    struct saved_bytes first, second;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, all_kinds);
    act(&kit);
    first = save(&kit);
    go_away(&kit, 0, 0, all_kinds);
    second = save(&kit);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    free(first.data);
    free(second.data);
    engine_kit_close(&kit);
}

/* A small state, and a policy that the caller owns until a load succeeds. */
struct small {
    struct engine_kit kit;
    struct saved_bytes bytes;
    ration_policy *policy;
};

static const char small_text[] = "limits: [{name: a, key: ip, rate: 10/h, max_keys: 4}, "
                                 "{name: b, rate: 20/h, algorithm: sliding_window}, "
                                 "{name: c, match: {path: /c}, key: ip, rate: 9/h, algorithm: "
                                 "fixed_window, max_keys: 4}]";

static void begin(struct small *small)
{
    engine_kit_plan(&small->kit);
    small->kit.options.inline_keys_max = 4;
    small->kit.options.spare_bytes = 4096;
    assert_int_equal(ration_engine_create(&small->kit.options, engine_kit_policy(small_text),
                                          &small->kit.engine, NULL),
                     RATION_OK);
    engine_kit_ask(&small->kit, "ip=192.0.2.1", 7, 0);
    throttle(&small->kit, 3);
    engine_kit_ask(&small->kit, "path=/c ip=192.0.2.2", 2, 0);
    block(&small->kit, "path=/c ip=192.0.2.2", "c", KIT_NOW_NS + 60 * SECOND);
    small->bytes = save(&small->kit);
    small->policy = engine_kit_policy(small_text);
}

static ration_status try(struct small *small, struct saved_bytes *bytes, ration_engine **out_engine,
                         struct ration_error *error)
{
    bytes->at = 0;
    return ration_engine_load(&small->kit.options, small->policy, saved_read, bytes, out_engine,
                              error);
}

static void refuse(struct small *small, struct saved_bytes *bytes, const char *part)
{
    ration_engine *untouched = (ration_engine *)small;
    ration_engine *loaded = untouched;
    struct ration_error error = {.message = ""};
    ration_status status = try(small, bytes, &loaded, &error);

    if (status != RATION_EINVAL || error.status != status || strstr(error.message, part) == NULL)
        fail_msg("%s: \"%s\", wanted \"%s\"", ration_status_name(status), error.message, part);
    assert_ptr_equal(loaded, untouched);
}

/* The policy is still whole, and the state can be loaded. */
static void end(struct small *small)
{
    ration_engine *loaded = NULL;

    assert_int_equal(try(small, &small->bytes, &loaded, NULL), RATION_OK);
    engine_kit_close(&small->kit);
    small->kit.engine = loaded;
    assert_int_equal(engine_kit_left(&small->kit, "ip=192.0.2.1"), 3);
    assert_int_equal(engine_kit_check(&small->kit, "path=/c ip=192.0.2.2").decision.retry_after_ns,
                     60 * SECOND);
    engine_kit_close(&small->kit);
    free(small->bytes.data);
}

static void every_end_that_comes_too_early_is_noticed(void **state)
{
    struct small small;
    size_t size;

    (void)state;
    begin(&small);
    size = small.bytes.size;
    for (small.bytes.size = 0; small.bytes.size < size; small.bytes.size++)
        refuse(&small, &small.bytes, "it is truncated");
    end(&small);
}

static void every_byte_that_is_changed_is_noticed(void **state)
{
    struct small small;

    (void)state;
    begin(&small);
    for (size_t i = 0; i < small.bytes.size; i++) {
        small.bytes.data[i] ^= (uint8_t)(1 << i % 8);
        refuse(&small, &small.bytes, "cannot be loaded: it");
        small.bytes.data[i] ^= (uint8_t)(1 << i % 8);
    }
    end(&small);
}

static void bytes_may_come_in_any_pieces(void **state)
{
    struct small small;
    size_t size;

    (void)state;
    begin(&small);
    size = small.bytes.size;
    saved_add(&small.bytes, "more", 4);
    for (small.bytes.piece_max = 0; small.bytes.piece_max < 20; small.bytes.piece_max++) {
        ration_engine *loaded = load(&small.kit, &small.bytes, small_text);

        assert_int_equal(small.bytes.at, size); /* and nothing behind it */
        ration_engine_free(loaded);
    }
    end(&small);
}

static void bytes_that_are_no_state_are_refused(void **state)
{
    struct saved_bytes text = {0}, dump = {0};
    struct small small;

    (void)state;
    begin(&small);
    saved_add(&text, small_text, sizeof(small_text));
    refuse(&small, &text, "cannot be loaded: it");
    dump = saved_dump(ration_engine_inline_limiter(small.kit.engine), KIT_NOW_NS);
    refuse(&small, &dump, "cannot be loaded: it");
    free(text.data);
    free(dump.data);
    end(&small);
}

/* Where the first of the four parts ends: the next prelude. */
static size_t first_size(const struct saved_bytes *bytes)
{
    const uint8_t *next = memmem(bytes->data + 8, bytes->size - 8, bytes->data, 8);

    assert_non_null(next);
    return (size_t)(next - bytes->data);
}

/* The first part, with some bytes replaced, and checksums that are right. */
static void refuse_with(struct small *small, size_t at, const void *bytes, size_t size,
                        const char *part)
{
    size_t first = first_size(&small->bytes);
    struct saved_bytes limiters = {.data = small->bytes.data, .size = first};
    struct saved_bytes payload = saved_unwrap(&limiters);
    struct saved_bytes changed;

    if (at > payload.size - size)
        at = payload.size;
    if (at == payload.size)
        saved_add(&payload, bytes, size);
    else
        memcpy(payload.data + at, bytes, size);
    changed = saved_wrap(payload.data, payload.size);
    saved_add(&changed, small->bytes.data + first, small->bytes.size - first);
    refuse(small, &changed, part);
    free(payload.data);
    free(changed.data);
}

static void lies_with_right_checksums_are_refused(void **state)
{
    struct saved_bytes limiters;
    struct small small;
    uint8_t size[2];
    size_t end_at;

    (void)state;
    begin(&small);
    refuse_with(&small, 0, "\x04", 1, "a format version that this release does not know");
    refuse_with(&small, 0, "\0", 1, "a format version that this release does not know");
    refuse_with(&small, 4, "\0\0\0\0", 4, "no limits, or too many");
    refuse_with(&small, 4, "\x01\x40\0\0", 4, "no limits, or too many"); /* 16385 */
    refuse_with(&small, 4, "\x01\0\0\0", 4, "it has bytes after its end");
    refuse_with(&small, 4, "\x04\0\0\0", 4, "it is damaged"); /* asks for a fourth */
    refuse_with(&small, 8, "\xff\xff", 2, "a text that is too long");
    saved_set_number(size, 2, RATION_LIMIT_TEXT_SIZE); /* no room for its end */
    refuse_with(&small, 8, size, 2, "a text that is too long");
    refuse_with(&small, 10, "!", 1, "one of its limits is not valid");
    refuse_with(&small, SIZE_MAX, "x", 1, "it has bytes after its end");
    limiters = (struct saved_bytes){.data = small.bytes.data, .size = first_size(&small.bytes)};
    limiters = saved_unwrap(&limiters);
    end_at = limiters.size;
    free(limiters.data);
    refuse_with(&small, end_at - 8 - 3, "\x03", 1, "is not valid"); /* overflow */
    refuse_with(&small, end_at - 8 - 2, "\x02", 1, "is not valid"); /* shadow */
    refuse_with(&small, end_at - 8 - 1, "\x02", 1, "is not valid"); /* in use */
    end(&small);
}

/* The order in which limits were removed came with the third version: 8 bytes behind each limit. */
static void cut_removals(struct saved_bytes *payload)
{
    unsigned char *bytes = (unsigned char *)payload->data;
    size_t from = 8, to = 8;

    while (from < payload->size) {
        size_t text = 2 + bytes[from] + bytes[from + 1] * 256u;
        size_t size = text + 2 + bytes[from + text] + bytes[from + text + 1] * 256u + 19;

        memmove(bytes + to, bytes + from, size);
        from += size + 8;
        to += size;
    }
    assert_int_equal(from, payload->size);
    payload->size = to;
}

/* Blocks of windows came with the second version. */
static void read_version(uint64_t version)
{
    struct saved_bytes limiters, payload, old;
    size_t first, size;
    ration_engine *loaded = NULL;
    struct small small;

    begin(&small);
    first = first_size(&small.bytes);
    limiters = (struct saved_bytes){.data = small.bytes.data, .size = first};
    payload = saved_unwrap(&limiters);
    saved_set_number(payload.data, 4, version);
    cut_removals(&payload);
    old = saved_wrap(payload.data, payload.size);
    size = small.bytes.size;
    if (version == 1)
        for (size -= 8; memcmp(small.bytes.data + size, small.bytes.data, 8) != 0;)
            size--; /* where the last part begins */
    saved_add(&old, small.bytes.data + first, size - first);
    assert_int_equal(try(&small, &old, &loaded, NULL), RATION_OK);
    assert_int_equal(old.at, old.size);
    free(payload.data);
    free(old.data);
    engine_kit_close(&small.kit);
    small.kit.engine = loaded;
    assert_int_equal(engine_kit_left(&small.kit, "ip=192.0.2.1"), 3);
    assert_int_equal(engine_kit_left(&small.kit, "path=/c ip=192.0.2.2"), version == 1 ? 7 : 0);
    block(&small.kit, "path=/c ip=192.0.2.2", "c", KIT_NOW_NS + 60 * SECOND);
    free(small.bytes.data);
    small.bytes = save(&small.kit);
    small.policy = engine_kit_policy(small_text);
    end(&small);
}

static void states_of_older_versions_are_read(void **state)
{
    (void)state;
    read_version(1);
    read_version(2);
}

/* R4: a block ends when it was due to end, by wall time if the clock starts again. */
static void a_block_continues(void **state)
{
    static const char text[] =
        "limits: [{name: w, key: ip, rate: 5/h, algorithm: sliding_window, max_keys: 100}]";
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, text);
    engine_kit_ask(&kit, "ip=192.0.2.1", 2, 0);
    block(&kit, "ip=192.0.2.1", NULL, KIT_NOW_NS + 90 * SECOND);
    go_away(&kit, 30 * SECOND, 30 * SECOND, text);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.retry_after_ns, 60 * SECOND);
    go_away(&kit, 20 * SECOND, 7300 * SECOND - kit.manual.ns, text);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.retry_after_ns, 40 * SECOND);
    kit.manual.ns += 40 * SECOND - 1;
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.retry_after_ns, 1);
    kit.manual.ns++;
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 3);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.verdict, RATION_ALLOW);
    engine_kit_close(&kit);
}

/* Fails at some call, with a status of its own. */
struct failing {
    struct saved_bytes *bytes;
    int fails_at;
};

static ration_status write_until(void *context, const void *bytes, size_t size)
{
    struct failing *failing = context;

    (void)bytes, (void)size;
    return failing->fails_at-- == 0 ? RATION_ECLOSED : RATION_OK;
}

static ration_status read_until(void *context, void *bytes, size_t size, size_t *out_size)
{
    struct failing *failing = context;

    if (failing->fails_at-- == 0)
        return RATION_ECLOSED;
    return saved_read(failing->bytes, bytes, size, out_size);
}

static void errors_of_writers_and_readers_are_passed_on(void **state)
{
    struct small small;
    int failed_count = 0;

    (void)state;
    begin(&small);
    for (;; failed_count++) {
        struct failing failing = {.fails_at = failed_count};
        ration_status status =
            ration_engine_save(small.kit.engine, KIT_NOW_NS, write_until, &failing);

        if (status == RATION_OK)
            break;
        assert_int_equal(status, RATION_ECLOSED);
    }
    assert_true(failed_count >= 8); /* four parts, each a prelude and a chunk */
    for (failed_count = 0;; failed_count++) {
        struct failing failing = {.bytes = &small.bytes, .fails_at = failed_count};
        struct ration_error error = {.message = ""};
        ration_engine *loaded = NULL;
        ration_status status;

        small.bytes.at = 0;
        status = ration_engine_load(&small.kit.options, small.policy, read_until, &failing, &loaded,
                                    &error);
        if (status == RATION_OK) {
            ration_engine_free(loaded);
            break;
        }
        assert_int_equal(status, RATION_ECLOSED);
        assert_int_equal(error.status, RATION_ECLOSED);
        assert_null(loaded);
    }
    assert_true(failed_count >= 8);
    small.policy = engine_kit_policy(small_text);
    end(&small);
}

static void wrong_options_are_refused(void **state)
{
    struct small small;
    ration_engine *loaded = NULL;

    (void)state;
    begin(&small);
    small.kit.options.struct_size--;
    assert_int_equal(try(&small, &small.bytes, &loaded, NULL), RATION_EINVAL);
    small.kit.options.struct_size++;
    small.kit.options.threads_max = 100000;
    assert_int_equal(try(&small, &small.bytes, &loaded, NULL), RATION_EINVAL);
    small.kit.options.threads_max = 0;
    assert_null(loaded);
    end(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_continues_where_it_was),
        cmocka_unit_test(tokens_refill_by_wall_time_if_the_clock_starts_again),
        cmocka_unit_test(under_another_policy_it_is_as_if_reloaded),
        cmocka_unit_test(a_block_continues),
        cmocka_unit_test(states_of_older_versions_are_read),
        cmocka_unit_test(the_remains_of_a_failed_reload_are_not_in_use),
        cmocka_unit_test(saved_again_it_is_the_same_state),
        cmocka_unit_test(every_end_that_comes_too_early_is_noticed),
        cmocka_unit_test(every_byte_that_is_changed_is_noticed),
        cmocka_unit_test(bytes_may_come_in_any_pieces),
        cmocka_unit_test(bytes_that_are_no_state_are_refused),
        cmocka_unit_test(lies_with_right_checksums_are_refused),
        cmocka_unit_test(errors_of_writers_and_readers_are_passed_on),
        cmocka_unit_test(wrong_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
