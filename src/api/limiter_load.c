/*
 * limiter_load: creates limiters and stacks from a dump: reads its header, creates the tables that the header
 * describes, and loads the keys.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/make.h"

static ration_status open_dump(ration_reader *read, void *context, size_t limiter_count,
                               struct ration_snapshot_load **out_load, struct ration_error *error)
{
    struct ration_snapshot_load *load = malloc(sizeof(*load));
    ration_status status;

    if (load == NULL) {
        if (error != NULL) {
            *error = (struct ration_error){.status = RATION_ENOMEM};
            snprintf(error->message, sizeof(error->message), "no memory to read the dump");
        }
        return RATION_ENOMEM;
    }
    status = ration_snapshot_load_open(load, read, context, limiter_count, error);
    if (status != RATION_OK) {
        free(load);
        return status;
    }
    *out_load = load;
    return RATION_OK;
}

ration_status ration_limiter_load(const struct ration_limiter_options *options, ration_reader *read,
                                  void *context, ration_limiter **out_limiter,
                                  struct ration_error *error)
{
    struct ration_snapshot_load *load = NULL;
    ration_limiter *limiter = NULL;
    ration_status status = open_dump(read, context, 1, &load, error);

    if (status != RATION_OK)
        return status;
    status = ration_make_limiter(options, &load->header, &limiter, error);
    if (status == RATION_OK)
        status = ration_snapshot_load_keys(load, &limiter, error);
    ration_snapshot_load_done(load);
    free(load);
    if (status != RATION_OK) {
        ration_limiter_free(limiter);
        return status;
    }
    *out_limiter = limiter;
    return RATION_OK;
}

ration_status ration_stack_load(const struct ration_stack_options *options, ration_reader *read,
                                void *context, ration_stack **out_stack, struct ration_error *error)
{
    struct ration_snapshot_load *load = NULL;
    ration_stack *stack = NULL;
    size_t limiter_count = options != NULL ? options->limiter_count : 0;
    ration_status status = open_dump(read, context, limiter_count, &load, error);

    if (status != RATION_OK)
        return status;
    status = ration_make_stack(options, &load->header, &stack, error);
    if (status == RATION_OK)
        status = ration_snapshot_load_keys(load, stack->limiters, error);
    ration_snapshot_load_done(load);
    free(load);
    if (status != RATION_OK) {
        ration_stack_free(stack);
        return status;
    }
    *out_stack = stack;
    return RATION_OK;
}
