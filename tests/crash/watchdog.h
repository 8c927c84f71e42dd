/*
 * watchdog: runs what might never return, or crash, and comes back in any case.
 */
#ifndef RATION_TESTS_CRASH_WATCHDOG_H
#define RATION_TESTS_CRASH_WATCHDOG_H

enum watchdog_end { WATCHDOG_RETURNED, WATCHDOG_HUNG, WATCHDOG_CRASHED };

/*
 * Calls work(context). HUNG: it has used a fifth of a second of CPU time, or was asleep for a
 * minute, and was left where it was. CRASHED: likewise, by a failure. The work must hold no lock of
 * the C library's. One thread, and not within itself.
 */
enum watchdog_end watchdog_run(void (*work)(void *context), void *context);

#endif
