#include "gate/pool.h"

#include <sched.h>

#include "base/process.h"
#include "gate/link.h"

#define ADOPTING   (UINT64_C(1) << 63)  /* beside the process that makes them its own */
#define IN_VAIN_NS RATION_NS_PER_SECOND /* so long a connection is not waited for again */

static void free_links(struct ration_gate_link *link)
{
    while (link != NULL) {
        struct ration_gate_link *next = link->next;

        ration_gate_link_free(link);
        link = next;
    }
}

void ration_gate_pool_init(struct ration_gate_pool *pool)
{
    *pool = (struct ration_gate_pool){.process = ration_process_id()};
    pthread_mutex_init(&pool->lock, NULL);
}

void ration_gate_pool_done(struct ration_gate_pool *pool)
{
    free_links(pool->idle);
    free_links(pool->drawing);
    pthread_mutex_destroy(&pool->lock);
}

/*
 * The first of a child to come here begins anew; the others wait for it. Whoever had the lock is in the parent. Links
 * that were in use there are lost, and with them some memory.
 */
static void adopt(struct ration_gate_pool *pool)
{
    uint64_t own = ration_process_id(), process;

    while ((process = __atomic_load_n(&pool->process, __ATOMIC_ACQUIRE)) != own) {
        struct ration_gate_link *idle = pool->idle, *drawing = pool->drawing;

        /* one that a process forked away from is not waited for: its thread is there, not here */
        if (process == (own | ADOPTING) ||
            !__atomic_compare_exchange_n(&pool->process, &process, own | ADOPTING, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            sched_yield();
            continue;
        }
        if ((process & ADOPTING) != 0) /* it may have begun to free them */
            idle = drawing = NULL;
        pthread_mutex_init(&pool->lock, NULL);
        pool->idle = pool->drawing = NULL;
        free_links(idle); /* closes this process' ends, without a word */
        free_links(drawing);
        __atomic_store_n(&pool->draw_count, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&pool->process, own, __ATOMIC_RELEASE); /* pairs with the load above */
    }
}

bool ration_gate_pool_has_draws(ration_gate *gate)
{
    struct ration_gate_pool *pool = &gate->remote->pool;

    return __atomic_load_n(&pool->draw_count, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&pool->process, __ATOMIC_RELAXED) == ration_process_id();
}

/* Until it is up, or nothing is under way, or the deadline. */
static void wait_for_connection(struct ration_gate_link *link, uint64_t deadline_ns)
{
    const struct ration_redis_loop *hooks = ration_poll_loop_hooks(link->poll_loop);
    uint64_t now_ns = hooks->now_ns(hooks->context);

    if (now_ns < link->await_after_ns)
        return;
    while (!ration_gate_link_is_up(link) && ration_redis_client_is_trying(link->client) &&
           now_ns < deadline_ns) {
        ration_poll_loop_run_until(link->poll_loop, deadline_ns);
        now_ns = hooks->now_ns(hooks->context);
    }
    if (!ration_gate_link_is_up(link))
        link->await_after_ns = now_ns + IN_VAIN_NS;
}

struct ration_gate_link *ration_gate_pool_take(ration_gate *gate, uint64_t *out_deadline_ns)
{
    struct ration_gate_pool *pool = &gate->remote->pool;
    struct ration_gate_link *link, **from;

    adopt(pool);
    pthread_mutex_lock(&pool->lock);
    from = pool->drawing != NULL ? &pool->drawing : &pool->idle;
    link = *from;
    if (link != NULL)
        *from = link->next;
    pthread_mutex_unlock(&pool->lock);
    if (link == NULL)
        link = ration_gate_link_open(gate);
    if (link == NULL)
        return NULL;
    *out_deadline_ns = ration_redis_client_deadline(link->client);
    ration_poll_loop_look(link->poll_loop);
    if (!ration_gate_link_is_up(link))
        wait_for_connection(link, *out_deadline_ns);
    return link;
}

void ration_gate_pool_give_back(ration_gate *gate, struct ration_gate_link *link)
{
    struct ration_gate_pool *pool = &gate->remote->pool;
    struct ration_gate_link **to = link->draw_count > 0 ? &pool->drawing : &pool->idle;

    pthread_mutex_lock(&pool->lock);
    link->next = *to;
    *to = link;
    pthread_mutex_unlock(&pool->lock);
}
