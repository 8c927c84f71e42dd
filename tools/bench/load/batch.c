#include "load/batch.h"

#include <stdlib.h>
#include <string.h>

bool load_batch_init(const struct load_request *request, const struct load_keys *keys,
                     uint64_t seed, uint32_t request_count, struct load_batch *out_batch,
                     struct load_error *error)
{
    char *bytes = malloc(request->size * request_count);

    if (bytes == NULL)
        return load_fail(error, "out of memory");
    for (uint32_t i = 0; i < request_count; i++)
        memcpy(bytes + i * request->size, request->bytes, request->size);
    *out_batch = (struct load_batch){request, keys, seed, bytes};
    return true;
}

size_t load_batch_fill(struct load_batch *batch, uint32_t request_count)
{
    const struct load_request *request = batch->request;
    char *bytes = batch->bytes;

    for (uint32_t i = 0; i < request_count; i++, bytes += request->size) {
        uint64_t key_index = load_keys_draw(batch->keys, &batch->random_state);

        for (uint32_t h = 0; h < request->hole_count; h++)
            load_request_fill(request->holes[h].kind, key_index, bytes + request->holes[h].offset);
    }
    return request->size * request_count;
}

void load_batch_done(struct load_batch *batch)
{
    free(batch->bytes);
    batch->bytes = NULL;
}
