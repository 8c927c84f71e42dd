/* A library to be unloaded: thread_index_test has threads that outlive it. */
#include "base/thread_index.h"

__attribute__((visibility("default"))) uint32_t plugin_thread_index(void);

uint32_t plugin_thread_index(void)
{
    return ration_thread_index();
}
