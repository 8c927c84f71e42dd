/*
 * Names of hosts, with a resolver that answers only when the test lets it: this file has its own getaddrinfo().
 */
#include "support/unit.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>

#include "ration/ration.h"
#include "redis/resolver.h"

static pthread_mutex_t resolver_lock =
    PTHREAD_MUTEX_INITIALIZER; /* while locked it does not answer */
static unsigned asked_count;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    struct addrinfo *six = NULL, *four = NULL;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (ration_redis_is_address(name))
        return real(name, service, hints, found);
    __atomic_add_fetch(&asked_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&resolver_lock);
    pthread_mutex_unlock(&resolver_lock);
    if (strcmp(name, "both.test") != 0)
        return EAI_NONAME;
    if (real("::1", service, hints, &six) != 0 || real("127.0.0.1", service, hints, &four) != 0)
        return EAI_FAIL;
    six->ai_next = four;
    *found = six;
    return 0;
}

static enum ration_redis_resolved wait_for(const struct ration_redis_resolver *lookup,
                                           unsigned number, const char **out_text)
{
    enum ration_redis_resolved looked;

    do
        looked = ration_redis_resolver_resolve(lookup, number, out_text);
    while (looked == RATION_REDIS_LOOKING);
    return looked;
}

static void addresses_are_known(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "::1", "2001:db8::1", "fe80::1%lo"};
    static const char *const names[] = {"localhost", "redis", "10.0.0.5.example", "a1"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(ration_redis_is_address(addresses[i]));
        assert_false(ration_redis_is_address(names[i]));
    }
}

static void a_name_is_found(void **state)
{
    struct ration_redis_resolver *lookup = ration_redis_resolver_create("both.test");
    const char *text = NULL;

    (void)state;
    assert_non_null(lookup);
    assert_int_equal(wait_for(lookup, 0, &text), RATION_REDIS_FOUND);
    assert_string_equal(text, "127.0.0.1");
    assert_int_equal(wait_for(lookup, 1, &text), RATION_REDIS_FOUND);
    assert_string_equal(text, "::1");
    assert_int_equal(wait_for(lookup, 2, &text), RATION_REDIS_FOUND);
    assert_string_equal(text, "127.0.0.1");
    ration_redis_resolver_free(lookup);
}

static void a_name_is_not_found(void **state)
{
    struct ration_redis_resolver *lookup = ration_redis_resolver_create("nobody.test");
    const char *text = NULL;

    (void)state;
    assert_non_null(lookup);
    assert_int_equal(wait_for(lookup, 0, &text), RATION_REDIS_NOT_FOUND);
    assert_string_equal(text, gai_strerror(EAI_NONAME));
    ration_redis_resolver_free(lookup);
}

static void no_caller_waits_for_it(void **state)
{
    unsigned asked_before = __atomic_load_n(&asked_count, __ATOMIC_RELAXED);
    struct ration_redis_resolver *lookup;
    const char *text = NULL;

    (void)state;
    pthread_mutex_lock(&resolver_lock);
    lookup = ration_redis_resolver_create("both.test");
    assert_non_null(lookup);
    assert_int_equal(ration_redis_resolver_resolve(lookup, 0, &text), RATION_REDIS_LOOKING);
    while (__atomic_load_n(&asked_count, __ATOMIC_RELAXED) == asked_before)
        continue;
    ration_redis_resolver_free(lookup);
    pthread_mutex_unlock(&resolver_lock);
}

/* R12: while the resolver does not answer, decisions are made without Redis. It is called once. */
static void R12_decisions_do_not_wait_for_a_name(void **state)
{
    static const char text[] = "limits: [{name: a, rate: 1/day, burst: 1000}]";
    struct ration_redis redis = {.url = "redis://both.test:1",
                                 .retry_min_ns = RATION_NS_PER_MS,
                                 .connect_timeout_ns = 5 * RATION_NS_PER_MS};
    struct ration_engine_options options = {.struct_size = sizeof(options), .redis = &redis};
    unsigned asked_before = __atomic_load_n(&asked_count, __ATOMIC_RELAXED);
    ration_policy *policy;
    ration_engine *engine;

    (void)state;
    assert_int_equal(ration_policy_parse(text, sizeof(text) - 1, NULL, NULL, &policy), RATION_OK);
    pthread_mutex_lock(&resolver_lock);
    assert_int_equal(ration_engine_create(&options, policy, &engine, NULL), RATION_OK);
    for (uint64_t begin_ns = ration_engine_now(engine);
         ration_engine_now(engine) - begin_ns < 100 * RATION_NS_PER_MS;) {
        struct ration_check check = {.cost_tokens = 1};

        ration_engine_check(engine, &check, 1, ration_engine_now(engine));
        assert_int_equal(check.status, RATION_OK);
        assert_true(check.is_degraded);
    }
    assert_in_range(__atomic_load_n(&asked_count, __ATOMIC_RELAXED) - asked_before, 0, 1);
    ration_engine_free(engine);
    pthread_mutex_unlock(&resolver_lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_known),
        cmocka_unit_test(a_name_is_found),
        cmocka_unit_test(a_name_is_not_found),
        cmocka_unit_test(no_caller_waits_for_it),
        cmocka_unit_test(R12_decisions_do_not_wait_for_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
