#include "load/schedule.h"

#define NS_PER_SECOND 1e9

struct load_schedule load_schedule_make(uint64_t start_ns, double rate_per_second,
                                        uint32_t thread_index, uint32_t thread_count)
{
    double all_interval_ns = NS_PER_SECOND / rate_per_second;

    return (struct load_schedule){
        .start_ns = start_ns + (uint64_t)(all_interval_ns * thread_index),
        .interval_ns = all_interval_ns * thread_count,
    };
}

uint64_t load_schedule_due_ns(const struct load_schedule *schedule, uint64_t request_index)
{
    return schedule->start_ns + (uint64_t)((double)request_index * schedule->interval_ns);
}

uint64_t load_schedule_due_count(const struct load_schedule *schedule, uint64_t now_ns)
{
    if (now_ns < schedule->start_ns)
        return 0;

    uint64_t count = (uint64_t)((double)(now_ns - schedule->start_ns) / schedule->interval_ns);

    /* The division rounds; the exact due times decide. */
    while (load_schedule_due_ns(schedule, count) <= now_ns)
        count++;
    while (count > 0 && load_schedule_due_ns(schedule, count - 1) > now_ns)
        count--;
    return count;
}
