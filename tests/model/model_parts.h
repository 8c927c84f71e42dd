/*
 * model_parts: the parts of which model.c puts an answer together. Every now is clamped already,
 * every cost is from 1 to the burst.
 */
#ifndef RATION_TESTS_MODEL_PARTS_H
#define RATION_TESTS_MODEL_PARTS_H

#include "model.h"

static inline model_units min_units(model_units a, model_units b)
{
    return a < b ? a : b;
}

static inline model_units max_units(model_units a, model_units b)
{
    return a > b ? a : b;
}

/* Rounds down, also below zero. b is positive. */
static inline model_units divide_down(model_units a, model_units b)
{
    if ((a | b) >> 64 == 0)
        return (model_units)((uint64_t)a / (uint64_t)b);

    model_units quotient = a / b;
    return quotient * b > a ? quotient - 1 : quotient;
}

static inline model_units divide_up(model_units a, model_units b)
{
    return -divide_down(-a, b);
}

static inline model_units units_of(uint64_t ns)
{
    return (model_units)ns * MODEL_UNITS_PER_NS;
}

/* Whole nanoseconds that it takes to pass units of time; 0 if they have passed. */
static inline uint64_t wait_of(model_units units)
{
    return units <= 0 ? 0 : (uint64_t)((units + MODEL_UNITS_PER_NS - 1) / MODEL_UNITS_PER_NS);
}

struct model_tokens model_tokens_make(const struct ration_rate *rate);
model_units model_tokens_now(const struct model_tokens *t, uint64_t now_ns);
uint64_t model_tokens_wait(const struct model_tokens *t, uint64_t cost, uint64_t now_ns);
void model_tokens_pay(struct model_tokens *t, uint64_t cost, uint64_t now_ns);
uint64_t model_tokens_remaining(const struct model_tokens *t, uint64_t now_ns);
uint64_t model_tokens_full_after(const struct model_tokens *t, uint64_t now_ns);
void model_tokens_refund(struct model_tokens *t, uint64_t tokens, uint64_t now_ns);
void model_tokens_charge(struct model_tokens *t, uint64_t tokens, uint64_t now_ns);
void model_tokens_set(struct model_tokens *t, uint64_t tokens, uint64_t now_ns);
void model_tokens_block(struct model_tokens *t, uint64_t until_ns);
void model_tokens_touch(struct model_tokens *t, uint64_t now_ns);
bool model_tokens_is_at(const struct model_tokens *t, const struct model_tokens *mark,
                        uint64_t now_ns);
void model_tokens_release(struct model_tokens *t, const struct model_release *r, uint64_t now_ns);

model_units model_interval_out(const struct model *m, uint64_t now_ns);
uint64_t model_interval_wait(const struct model *m, uint64_t cost, uint64_t now_ns);
void model_interval_pay(struct model *m, model_units cost, uint64_t now_ns);
uint64_t model_interval_full_after(const struct model *m, uint64_t now_ns);
void model_interval_refund(struct model *m, uint64_t tokens);
void model_interval_charge(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_interval_set(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_interval_block(struct model *m, uint64_t until_ns);
bool model_interval_is_at(const struct model *m, const struct model_interval *mark);
void model_interval_release(struct model *m, const struct model_release *r, uint64_t now_ns);

model_units model_queue_backlog(const struct model *m, uint64_t now_ns);
uint64_t model_queue_wait(const struct model *m, uint64_t cost, uint64_t now_ns);
void model_queue_charge(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_queue_set(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_queue_block(struct model *m, uint64_t until_ns);
void model_queue_refund(struct model *m, uint64_t tokens, uint64_t now_ns);
bool model_queue_is_at(const struct model *m, const struct model_queue *mark, uint64_t now_ns);

/* Both kinds of windows; a fixed one has no use for the one before. */
uint64_t model_windows_wait(const struct model *m, uint64_t cost, uint64_t now_ns);
uint64_t model_windows_remaining(const struct model *m, uint64_t now_ns);
uint64_t model_windows_full_after(const struct model *m, uint64_t now_ns);
void model_windows_pay(struct model *m, uint64_t cost, uint64_t now_ns);
void model_windows_refund(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_windows_release(struct model *m, const struct model_release *r);
void model_windows_set(struct model *m, uint64_t tokens, uint64_t now_ns);

uint64_t model_log_wait(const struct model *m, uint64_t cost, uint64_t now_ns);
uint64_t model_log_remaining(const struct model *m, uint64_t now_ns);
uint64_t model_log_full_after(const struct model *m, uint64_t now_ns);
void model_log_pay(struct model *m, uint64_t cost, uint64_t now_ns);
void model_log_refund(struct model *m, uint64_t tokens);
void model_log_release(struct model *m, const struct model_release *r, uint64_t now_ns);
void model_log_set(struct model *m, uint64_t tokens, uint64_t now_ns);

#endif
