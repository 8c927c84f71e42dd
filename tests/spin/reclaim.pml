/*
 * reclaim: a place is given to another key while the first one's is charged (table/plain.h), and
 * threads whose now runs back.
 *
 * A stands in one of two places, in debt until 2. One thread takes A at 3 and then, its clock set
 * back, at 1. Another takes A at 6. A third takes B at 2 and at 6, when A is idle (again), so that
 * it may take A's place.
 *
 * What is checked, in every state of every interleaving:
 *
 * - R1, R7: A is not admitted more than had nothing ever been reclaimed, whatever the nows
 * - a denial has a cause: the budget is used, or the thread's now lies behind another's
 * - nobody is charged for another
 * - there are never two members of one tag
 * - there is no cycle: somebody always gets on, with any thread dead
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
