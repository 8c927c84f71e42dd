#include "base/entropy.h"

#include <sys/random.h>

bool ration_entropy_read(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size;
}
