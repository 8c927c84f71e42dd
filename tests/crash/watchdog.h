/*
 * watchdog: runs a function that may hang or crash, and returns in any case.
 */
#ifndef RATION_TESTS_CRASH_WATCHDOG_H
#define RATION_TESTS_CRASH_WATCHDOG_H

enum watchdog_end { WATCHDOG_RETURNED, WATCHDOG_HUNG, WATCHDOG_CRASHED };

/*
 * Calls work(context). HUNG: it has used a fifth of a second of CPU time, or has slept for a minute, and was abandoned.
 * CRASHED: abandoned after a signal. The work must not hold a lock of the C library. For one thread, and not nested.
 */
enum watchdog_end watchdog_run(void (*work)(void *context), void *context);

#endif
