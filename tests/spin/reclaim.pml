/*
 * reclaim: a place is given to another key while the first key is charged (table/plain.h), by threads whose now runs
 * backwards.
 *
 * A has one of two places, with tokens in use until 2. The first thread takes from A at 3 and then, its clock set
 * back, at 1. The second takes from A at 6. The third takes from B at 2 and at 6, when A is idle again, so that B may
 * get A's place.
 *
 * What is checked, in every state of every interleaving:
 *
 * - R1, R7: A is admitted no more than if nothing had ever been reclaimed, whatever the nows
 * - a denial has a cause: the burst is used, or the thread's now is earlier than another thread's
 * - no key is charged for another key
 * - there are never two members with one tag
 * - there is no cycle: some thread always makes progress, even if any thread is dead
 *
 * plain.pml has the protocol and says what is abstracted.
 */

#define THREADS 3
#define PLACES  2
#define TOKEN   2

#include "plain.pml"

init
{
    atomic {
        slot[0] = MEMBER(A, 2);
        would[A] = 2;
        latest_now = 6;
        if
        :: start[A] = 0
        :: start[A] = 1
        fi;
        start[B] = 0;
        run taker(0, A, 3, 1);
        run taker(1, A, 6, 0);
        run taker(2, B, 2, 6)
    }
}
