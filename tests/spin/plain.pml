/*
 * plain: a take of one token from a key in a plain section, one step per atomic instruction.
 * creation.pml and reclaim.pml include this file and say which thread takes from which key, and when.
 *
 * step            mirrors
 * FIND            ration_plain_find(): one load per place. (The code loads the tag first, and the whole slot if the
 *                 tag is the key's; the value that counts is loaded at one moment.)
 * NOT_FOUND       the caller: ration_section_reclaim_watermark_ns() of a key that was not found; judge
 * BEGIN_CLAIM     ration_claim_begin(): find_other() before the claim
 * ROOM            choose_slot(): one load per place
 * RAISE           claim_slot(): ration_section_raise_reclaim_watermark()
 * PUT_CLAIM       claim_slot(): kind->claim() and the swap
 * ALONE           resolve_claim(): find_other() after the claim, one load per place
 * IS_CURRENT      resolve_claim(): checks that the claim for which another is cancelled is still there
 * ABORT_CLAIM     resolve_claim(): removes its own claim
 * CANCEL          resolve_claim(): removes another thread's claim
 * WATERMARK       the caller, with CLAIMED (its own claim, or another thread's that it completes):
 *                 ration_section_reclaim_watermark_ns() once more; judge
 * COMPLETE        the caller: ration_plain_complete(), charged
 * GIVE_UP         the caller: ration_claim_abort()
 * CHARGE          the caller: the swap of a member that was found
 *
 * What is abstracted:
 *
 * - There are few places, and both keys may use all of them. Any free place may be chosen, so the rule by which
 *   choose_slot() prefers one is left out, and all its outcomes are included. The search for a key begins at
 *   start[key] and wraps around; claims are ranked by their index.
 * - A thread that finds no room searches once more and then ends: the overflow bucket is left out.
 * - There is one set, so one watermark. Its load and swap (raise_watermark()) are one step: a maximum.
 * - Time is a few small numbers. A limit has a burst of 1: a take at now is allowed if the moment of the slot is not
 *   after now, and sets it to now + TOKEN. A claim lapses at now + LAPSE.
 * - The number in a claim is the smallest that no slot and no thread remembers. That is as good as a number that was
 *   never used before, and keeps the number of states finite.
 * - A thread that dies is one that takes no further step. That is an interleaving like any other: the assertions hold
 *   in every state, and the search for cycles assumes no fairness, so it includes the runs in which one thread, or all
 *   but one, are dead.
 * - Memory is sequentially consistent. The model does not show that the code's memory orders and fences achieve that.
 *
 * The seeded bugs are the BUG_ macros below. BUG_STALE_INITIAL, BUG_STALE_CANCEL and BUG_HELP_UNCHARGED were real bugs
 * that these models found.
 */

#ifndef TOKEN
#define TOKEN 4
#endif
#define LAPSE 4

#define MOMENT(v)                ((v) & 15)
#define TAG(v)                   (((v) >> 4) & 3)
#define IS_CLAIM(v)              (((v) >> 6) & 1)
#define NUMBER(v)                ((v) >> 7)
#define MEMBER(tag, moment)      ((tag) << 4 | (moment))
#define CLAIM(tag, lapse, number) ((number) << 7 | 1 << 6 | (tag) << 4 | (lapse))

#define IS_OF(v, tag)            (TAG(v) == (tag))
#define IS_MEMBER_OF(v, tag)     (TAG(v) == (tag) && !IS_CLAIM(v))
#define IS_FREE(v, now)          (MOMENT(v) <= (now))

#define MAX(a, b)                ((a) > (b) -> (a) : (b))
#define FITS(moment, now)        ((moment) <= (now))
#define NEXT(moment, now)        (MAX(moment, now) + TOKEN)

#define NOWHERE 7

/* Keys. */
#define A 1
#define B 2
#define X 3 /* exists from the start; no thread takes from it */

short slot[PLACES];
byte watermark;
byte start[4];

/* Each thread's copies of slots; global so that new_number() can read them. */
short claim[THREADS]; /* the claim that the thread completes */
short seen[THREADS];

/*
 * The expected state. would[key] is the moment of the key's bucket if nothing had ever been reclaimed,
 * admitted[key] the number of takes that were allowed.
 */
byte would[4];
byte admitted[4];
byte done_count;
byte full_count;
byte latest_now;

byte k, n; /* within a step; 0 between steps */

mtype = { FIND, NOT_FOUND, BEGIN_CLAIM, ROOM, RAISE, PUT_CLAIM, ALONE, IS_CURRENT, ABORT_CLAIM, CANCEL, WATERMARK,
          COMPLETE, GIVE_UP, CHARGE, FIND_MOMENT, EARLY_SEARCH, HELP, DONE }

/* Prints one step when a trail is replayed. A slot is printed as tag.moment.claim */
inline say()
{
    printf("thread %d, key %d at %d: %e %d; watermark %d; slots %d.%d.%d %d.%d.%d\n", me, key, now,
           pc, i, watermark, TAG(slot[0]), MOMENT(slot[0]), NUMBER(slot[0]), TAG(slot[PLACES - 1]),
           MOMENT(slot[PLACES - 1]), NUMBER(slot[PLACES - 1]))
}

#define HAS_NUMBER(v, number) (IS_CLAIM(v) && NUMBER(v) == (number))

inline new_number(number)
{
    number = 1;
#ifndef BUG_NUMBER_TWICE
    k = 0;
    do
    :: k < PLACES + THREADS ->
       if
       :: k < PLACES && HAS_NUMBER(slot[k % PLACES], number) -> number++; k = 0
       :: k >= PLACES && (HAS_NUMBER(claim[(k - PLACES) % THREADS], number) ||
                          HAS_NUMBER(seen[(k - PLACES) % THREADS], number)) -> number++; k = 0
       :: else -> k++
       fi
    :: else -> break
    od;
    k = 0
#endif
}

/* Never two members of one tag. */
inline check_members()
{
    for (k : 0 .. PLACES - 1) {
        n = n + (IS_MEMBER_OF(slot[k], key) -> 1 : 0)
    }
    assert(n <= 1);
    k = 0;
    n = 0
}

inline admit()
{
    assert(FITS(would[key], now)); /* R1, R7: no more is admitted than if nothing were reclaimed */
    would[key] = NEXT(would[key], now);
    admitted[key]++;
    pc = DONE
}

inline deny()
{
#ifndef BUG_TWO_WORDS /* the assertion about the charge must catch that bug */
    assert(!FITS(would[key], now) || now < latest_now); /* only a take with a stale now may be denied earlier */
#endif
    pc = DONE
}

inline go(step)
{
    i = 0;
    pc = step
}

inline forget_seen()
{
    seen[me] = 0;
    where = NOWHERE
}

inline forget_claim()
{
    claim[me] = 0;
    claim_at = NOWHERE
}

/* A member was found, and is in seen. */
inline judge_seen()
{
    if
    :: FITS(MOMENT(seen[me]), now) -> go(CHARGE)
    :: else -> deny()
    fi
}

inline end_of_room()
{
    if
    :: i < PLACES
    :: i == PLACES && where == NOWHERE -> is_full = 1; go(FIND) /* and search again */
    :: i == PLACES && where != NOWHERE ->
#if defined(BUG_SEARCH_BEFORE_CLAIM)
       go(EARLY_SEARCH)
#elif defined(BUG_NO_WATERMARK) || defined(BUG_WATERMARK_AFTER)
       go(PUT_CLAIM)
#else
       /* no tokens are lost with an empty place or a lapsed claim */
       go((seen[me] == 0 || IS_CLAIM(seen[me]) -> PUT_CLAIM : RAISE))
#endif
    fi
}

#define AT ((start[key] + i) % PLACES)

proctype taker(byte me; byte key; byte now; byte again)
{
    mtype pc = FIND;
    byte i, where = NOWHERE, claim_at = NOWHERE, first, is_full, is_other;

    do
    :: d_step { pc == FIND -> say();
           if
#ifdef BUG_TWO_WORDS
           :: IS_MEMBER_OF(slot[AT], key) -> where = AT; go(FIND_MOMENT)
#else
           :: IS_MEMBER_OF(slot[AT], key) -> where = AT; seen[me] = slot[AT]; judge_seen()
#endif
           :: else ->
              i++;
              if
              :: i == PLACES && is_full -> full_count++; pc = DONE
              :: i == PLACES && !is_full -> go(NOT_FOUND)
              :: else
              fi
           fi }
#ifdef BUG_TWO_WORDS
    :: d_step { pc == FIND_MOMENT -> say();
           seen[me] = MEMBER(key, MOMENT(slot[where]));
           judge_seen() }
#endif
    :: d_step { pc == NOT_FOUND -> say();
           first = watermark;
           if
           :: FITS(first, now) -> go(BEGIN_CLAIM)
           :: else -> deny()
           fi }
    :: d_step { pc == BEGIN_CLAIM -> say();
           if
           :: IS_MEMBER_OF(slot[AT], key) -> where = AT; seen[me] = slot[AT]; judge_seen()
           :: IS_OF(slot[AT], key) && IS_CLAIM(slot[AT]) ->
              claim_at = AT;
              claim[me] = slot[AT];
              is_other = 1;
              go(ALONE)
           :: else ->
              i++;
              if
              :: i == PLACES -> go(ROOM)
              :: else
              fi
           fi }

    /* Chooses the first free place, or a later one. */
    :: d_step { pc == ROOM && IS_FREE(slot[AT], now) -> say();
           where = AT;
           seen[me] = slot[AT];
           i++;
           end_of_room() }
    :: d_step { pc == ROOM && (!IS_FREE(slot[AT], now) || where != NOWHERE) -> say();
           i++;
           end_of_room() }
#ifdef BUG_SEARCH_BEFORE_CLAIM
    :: d_step { pc == EARLY_SEARCH -> say();
           if
           :: IS_OF(slot[AT], key) -> forget_seen(); go(BEGIN_CLAIM)
           :: else ->
              i++;
              if
              :: i == PLACES -> go(PUT_CLAIM)
              :: else
              fi
           fi }
#endif
    :: d_step { pc == RAISE -> say();
           watermark = MAX(watermark, MOMENT(seen[me]));
#ifdef BUG_WATERMARK_AFTER
           forget_seen();
           go(ALONE) }
#else
           go(PUT_CLAIM) }
#endif
    :: d_step { pc == PUT_CLAIM -> say();
           if
#ifdef BUG_NO_COMPARE
           :: true ->
#else
           :: slot[where] == seen[me] ->
#endif
              new_number(n);
              slot[where] = CLAIM(key, now + LAPSE, n);
              n = 0;
              claim_at = where;
              claim[me] = slot[where];
              is_other = 0;
#if defined(BUG_WATERMARK_AFTER)
              go(RAISE)
#elif defined(BUG_NO_SECOND_SEARCH) || defined(BUG_SEARCH_BEFORE_CLAIM)
              forget_seen();
              go(WATERMARK)
#else
              forget_seen();
              go(ALONE)
#endif
#ifndef BUG_NO_COMPARE
           :: else -> forget_seen(); go(ROOM)
#endif
           fi }

    :: d_step { pc == ALONE -> say();
           if
#ifdef BUG_BOTH_STAND
           :: AT != claim_at && IS_MEMBER_OF(slot[AT], key) ->
#else
           :: AT != claim_at && IS_OF(slot[AT], key) ->
#endif
              where = AT;
              seen[me] = slot[AT];
#ifdef BUG_STALE_CANCEL
              go((!IS_CLAIM(seen[me]) || where < claim_at -> ABORT_CLAIM : CANCEL))
#else
              go((!IS_CLAIM(seen[me]) || where < claim_at -> ABORT_CLAIM : IS_CURRENT))
#endif
           :: else ->
              i++;
              if
#if defined(BUG_STALE_INITIAL)
              :: i == PLACES && is_other -> go(HELP)
              :: i == PLACES && !is_other -> go(WATERMARK)
#else
              :: i == PLACES -> go(WATERMARK)
#endif
              :: else
              fi
           fi }
    :: d_step { pc == IS_CURRENT -> say();
           if
           :: slot[claim_at] == claim[me] -> go(CANCEL)
           :: else -> forget_claim(); forget_seen(); go(BEGIN_CLAIM)
           fi }
    :: d_step { pc == ABORT_CLAIM -> say();
           if
           :: slot[claim_at] == claim[me] -> slot[claim_at] = 0
           :: else
           fi;
           forget_claim();
           if
           :: IS_CLAIM(seen[me]) ->
              claim_at = where;
              claim[me] = seen[me];
              is_other = 1;
              forget_seen();
              go(ALONE)
           :: else -> judge_seen()
           fi }
    :: d_step { pc == CANCEL -> say();
           if
           :: slot[where] == seen[me] -> slot[where] = 0
           :: else
           fi;
           forget_seen();
           go(ALONE) }

    /* The claim is the only one of its key. */
    :: d_step { pc == WATERMARK -> say();
           first = watermark;
#ifdef BUG_HELP_UNCHARGED
           if
           :: is_other -> go(HELP)
           :: !is_other && FITS(first, now) -> go(COMPLETE)
           :: else -> go(GIVE_UP)
           fi }
#else
           go((FITS(first, now) -> COMPLETE : GIVE_UP)) }
#endif
    :: d_step { pc == COMPLETE -> say();
           if
           :: slot[claim_at] == claim[me] ->
              slot[claim_at] = MEMBER(key, NEXT(first, now));
              check_members();
              admit()
           :: else -> forget_claim(); go(FIND)
           fi }
    :: d_step { pc == GIVE_UP -> say();
           if
           :: slot[claim_at] == claim[me] -> slot[claim_at] = 0
           :: else
           fi;
           deny() }
#if defined(BUG_STALE_INITIAL) || defined(BUG_HELP_UNCHARGED)
    /* Completes another thread's claim with an outdated value, or without a charge. */
    :: d_step { pc == HELP -> say();
           if
           :: slot[claim_at] == claim[me] ->
              slot[claim_at] = MEMBER(key, first);
              check_members()
           :: else
           fi;
           forget_claim();
           go(BEGIN_CLAIM) }
#endif

    :: d_step { pc == CHARGE -> say();
           if
#ifdef BUG_TWO_WORDS
           :: MOMENT(slot[where]) == MOMENT(seen[me]) ->
#else
           :: slot[where] == seen[me] ->
#endif
              assert(IS_MEMBER_OF(slot[where], key)); /* nobody is charged for another */
              slot[where] = slot[where] - MOMENT(seen[me]) + NEXT(MOMENT(seen[me]), now);
              admit()
           :: else -> forget_seen(); go(FIND)
           fi }

    :: d_step { pc == DONE ->
           i = 0;
           first = 0;
           is_full = 0;
           is_other = 0;
           forget_seen();
           forget_claim();
           pc = FIND;
           if
           :: again > 0 -> now = again; again = 0
           :: else -> done_count++; now = 0
           fi }
       if
       :: now == 0 -> break
       :: else
       fi
    od
}
