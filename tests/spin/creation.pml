/*
 * creation: threads that create the same key, and another key, at the same time (table/claim.h).
 *
 * What is checked, in every state of every interleaving:
 *
 * - there are never two members with one tag
 * - R1, R7: a key is admitted no more than if nothing had ever been reclaimed
 * - no key is charged for another key
 * - a denial has a cause: the burst is used, or the thread's now is earlier than another thread's
 * - at the end, if there was room: exactly one of all first takes was admitted
 * - there is no cycle, whatever the scheduler does: some thread always makes progress, even if any thread is dead
 *
 * CASE             threads
 * CASE_SAME        three create A, one with an earlier now, so that it finds other places idle
 * CASE_LAPSE       three create A, one with a now at which the claims of the others have lapsed, and
 *                  at which A itself is idle again
 * CASE_OTHER       two create A, one creates B with a later now and takes places from them
 * CASE_CROWD       two create A, two create B, and there is one place
 * CASE_FOUR        four create A. Only used to find a bug: the whole search has 6.5 million states (and
 *                  finds nothing), which is too slow for every day
 *
 * plain.pml has the protocol and says what is abstracted.
 */

#if defined(CASE_CROWD)
#define THREADS 4
#define PLACES  1
#elif defined(CASE_FOUR)
#define THREADS 4
#define PLACES  2
#else
#define THREADS 3
#define PLACES  2
#endif

#include "plain.pml"

init
{
    atomic {
#if defined(CASE_FOUR)
        start[A] = 0;
#else
        slot[0] = MEMBER(X, 1);
        slot[PLACES - 1] = MEMBER(X, PLACES);
        if
        :: start[A] = 0
        :: start[A] = PLACES - 1
        fi;
        start[B] = PLACES - 1;
#endif
#if defined(CASE_SAME)
        latest_now = 2;
        run taker(0, A, 1, 0);
        run taker(1, A, 2, 0);
        run taker(2, A, 2, 0)
#elif defined(CASE_LAPSE)
        latest_now = 6;
        run taker(0, A, 1, 0);
        run taker(1, A, 2, 0);
        run taker(2, A, 6, 0)
#elif defined(CASE_OTHER)
        latest_now = 6;
        run taker(0, A, 1, 0);
        run taker(1, A, 2, 0);
        run taker(2, B, 6, 0)
#elif defined(CASE_FOUR)
        latest_now = 2;
        run taker(0, A, 2, 0);
        run taker(1, A, 2, 0);
        run taker(2, A, 2, 0);
        run taker(3, A, 2, 0)
#elif defined(CASE_CROWD)
        latest_now = 2;
        run taker(0, A, 2, 0);
        run taker(1, A, 2, 0);
        run taker(2, B, 2, 0);
        run taker(3, B, 2, 0)
#endif
    }
    done_count == THREADS ->
#if defined(CASE_SAME) || defined(CASE_FOUR)
    assert(admitted[A] == 1 || full_count > 0)
#elif defined(CASE_LAPSE)
    assert(admitted[A] >= 1 || full_count > 0)
#elif defined(CASE_OTHER)
    assert((admitted[A] == 1 && admitted[B] == 1) || full_count > 0)
#elif defined(CASE_CROWD)
    assert(admitted[A] + admitted[B] == 1) /* only the first take */
#endif
}
