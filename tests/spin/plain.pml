/*
 * plain: a take of one token from a key in a plain section, one step per atomic instruction.
 * creation.pml and reclaim.pml include this and say who takes what, and when.
 *
 * step            mirrors
 * FIND            ration_plain_find(): one load per place. (It loads the tag first, and the whole
 *                 slot where that is the key's; what it goes by is one load at one moment.)
 * LOOKED          the caller: ration_section_reclaim_watermark_ns() of a key that was not found; judge
 * ENTER           ration_claim_begin(): find_other() before the claim
 * ROOM            choose_slot(): one load per place
 * RAISE           claim_slot(): ration_section_raise_reclaim_watermark()
 * PUT_CLAIM       claim_slot(): kind->claim() and the swap
 * ALONE           resolve_claim(): find_other() after the claim, one load per place
 * STANDS          resolve_claim(): whether the claim that another is cancelled for is there itself
 * WITHDRAW        resolve_claim(): its claim withdrawn
 * CANCEL          resolve_claim(): another's claim cancelled
 * ORIGIN          the caller, CLAIMED (its own claim or another's, seen through):
 *                 ration_section_reclaim_watermark_ns() once more; judge
 * COMPLETE        the caller: ration_plain_complete(), charged
 * GIVE_UP         the caller: ration_claim_abort()
 * CHARGE          the caller: the swap of a member that was found
 *
 * What is abstracted:
 *
 * - Places are few, and both keys may stand in all of them. Any free place may be chosen, so
 *   the rule by which choose_slot() prefers one is not in here, and all its outcomes are.
 *   A key's look starts at start[key] and goes round; claims are ranked by their index.
 * - Who finds no room looks once more, and that is all: the overflow bucket is not in here.
 * - One set, so one origin. Its load and swap (raise_watermark()) are one step: a maximum.
 * - Time is a few small numbers. A limit has a burst of 1: a take at now is allowed if the moment
 *   is not after now, and moves it to now + TOKEN. A claim lapses at now + LAPSE.
 * - The number in a claim is the smallest that no slot and no thread remembers, which is as good
 *   as one never used before, and keeps the number of states finite.
 * - A thread that dies is one that takes no further step. That is an interleaving like any other:
 *   what must hold, holds in every state, and "the others finish" is a search for cycles without
 *   any fairness, so that it includes those in which one thread, or all but one, are dead.
 * - Memory is sequentially consistent. That the code's orders and fences make it so is not shown.
 *
 * The seeded bugs are the BUG_ below. BUG_STALE_INITIAL, BUG_STALE_CANCEL and BUG_HELP_UNCHARGED
 * are no inventions: these models found them.
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
#define X 3 /* was there before, and nobody takes from it */

short slot[PLACES];
byte origin;
byte start[4];

/* Copies of slots that each thread has; out here so that new_number() can see them. */
short entrance[THREADS]; /* the claim that it sees through */
short seen[THREADS];

/*
 * What is compared with. would[key] is the moment of the key's bucket had nothing ever been
 * reclaimed, admitted[key] how many takes were allowed.
 */
byte would[4];
byte admitted[4];
byte done_count;
byte full_count;
byte latest_now;

byte k, n; /* within a step; 0 between steps */

mtype = { FIND, LOOKED, ENTER, ROOM, RAISE, PUT_CLAIM, ALONE, STANDS, WITHDRAW, CANCEL, ORIGIN,
          COMPLETE, GIVE_UP, CHARGE, FIND_MOMENT, EARLY_LOOK, HELP, DONE }

/* A line of the interleaving, when a trail is replayed. A slot is reported as tag.moment.claim */
inline say()
{
    printf("thread %d, key %d at %d: %e %d; origin %d; slots %d.%d.%d %d.%d.%d\n", me, key, now,
           pc, i, origin, TAG(slot[0]), MOMENT(slot[0]), NUMBER(slot[0]), TAG(slot[PLACES - 1]),
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
       :: k >= PLACES && (HAS_NUMBER(entrance[(k - PLACES) % THREADS], number) ||
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
    assert(FITS(would[key], now)); /* R1, R7: not more than if nothing were reclaimed */
    would[key] = NEXT(would[key], now);
    admitted[key]++;
    pc = DONE
}

inline deny()
{
#ifndef BUG_TWO_WORDS /* which is to be caught by what it charges */
    assert(!FITS(would[key], now) || now < latest_now); /* only a stale now is denied for less */
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

inline forget_entrance()
{
    entrance[me] = 0;
    entrance_at = NOWHERE
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
    :: i == PLACES && where == NOWHERE -> is_full = 1; go(FIND) /* and look again */
    :: i == PLACES && where != NOWHERE ->
#if defined(BUG_LOOK_BEFORE_CLAIM)
       go(EARLY_LOOK)
#elif defined(BUG_NO_ORIGIN) || defined(BUG_ORIGIN_AFTER)
       go(PUT_CLAIM)
#else
       /* an empty place or a lapsed claim takes nothing with it */
       go((seen[me] == 0 || IS_CLAIM(seen[me]) -> PUT_CLAIM : RAISE))
#endif
    fi
}

#define AT ((start[key] + i) % PLACES)

proctype taker(byte me; byte key; byte now; byte again)
{
    mtype pc = FIND;
    byte i, where = NOWHERE, entrance_at = NOWHERE, first, is_full, is_other;

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
              :: i == PLACES && !is_full -> go(LOOKED)
              :: else
              fi
           fi }
#ifdef BUG_TWO_WORDS
    :: d_step { pc == FIND_MOMENT -> say();
           seen[me] = MEMBER(key, MOMENT(slot[where]));
           judge_seen() }
#endif
    :: d_step { pc == LOOKED -> say();
           first = origin;
           if
           :: FITS(first, now) -> go(ENTER)
           :: else -> deny()
           fi }
    :: d_step { pc == ENTER -> say();
           if
           :: IS_MEMBER_OF(slot[AT], key) -> where = AT; seen[me] = slot[AT]; judge_seen()
           :: IS_OF(slot[AT], key) && IS_CLAIM(slot[AT]) ->
              entrance_at = AT;
              entrance[me] = slot[AT];
              is_other = 1;
              go(ALONE)
           :: else ->
              i++;
              if
              :: i == PLACES -> go(ROOM)
              :: else
              fi
           fi }

    /* The first free place that is met, or a later one instead. */
    :: d_step { pc == ROOM && IS_FREE(slot[AT], now) -> say();
           where = AT;
           seen[me] = slot[AT];
           i++;
           end_of_room() }
    :: d_step { pc == ROOM && (!IS_FREE(slot[AT], now) || where != NOWHERE) -> say();
           i++;
           end_of_room() }
#ifdef BUG_LOOK_BEFORE_CLAIM
    :: d_step { pc == EARLY_LOOK -> say();
           if
           :: IS_OF(slot[AT], key) -> forget_seen(); go(ENTER)
           :: else ->
              i++;
              if
              :: i == PLACES -> go(PUT_CLAIM)
              :: else
              fi
           fi }
#endif
    :: d_step { pc == RAISE -> say();
           origin = MAX(origin, MOMENT(seen[me]));
#ifdef BUG_ORIGIN_AFTER
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
              entrance_at = where;
              entrance[me] = slot[where];
              is_other = 0;
#if defined(BUG_ORIGIN_AFTER)
              go(RAISE)
#elif defined(BUG_NO_SECOND_LOOK) || defined(BUG_LOOK_BEFORE_CLAIM)
              forget_seen();
              go(ORIGIN)
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
           :: AT != entrance_at && IS_MEMBER_OF(slot[AT], key) ->
#else
           :: AT != entrance_at && IS_OF(slot[AT], key) ->
#endif
              where = AT;
              seen[me] = slot[AT];
#ifdef BUG_STALE_CANCEL
              go((!IS_CLAIM(seen[me]) || where < entrance_at -> WITHDRAW : CANCEL))
#else
              go((!IS_CLAIM(seen[me]) || where < entrance_at -> WITHDRAW : STANDS))
#endif
           :: else ->
              i++;
              if
#if defined(BUG_STALE_INITIAL)
              :: i == PLACES && is_other -> go(HELP)
              :: i == PLACES && !is_other -> go(ORIGIN)
#else
              :: i == PLACES -> go(ORIGIN)
#endif
              :: else
              fi
           fi }
    :: d_step { pc == STANDS -> say();
           if
           :: slot[entrance_at] == entrance[me] -> go(CANCEL)
           :: else -> forget_entrance(); forget_seen(); go(ENTER)
           fi }
    :: d_step { pc == WITHDRAW -> say();
           if
           :: slot[entrance_at] == entrance[me] -> slot[entrance_at] = 0
           :: else
           fi;
           forget_entrance();
           if
           :: IS_CLAIM(seen[me]) ->
              entrance_at = where;
              entrance[me] = seen[me];
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

    /* The claim stands alone. */
    :: d_step { pc == ORIGIN -> say();
           first = origin;
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
           :: slot[entrance_at] == entrance[me] ->
              slot[entrance_at] = MEMBER(key, NEXT(first, now));
              check_members();
              admit()
           :: else -> forget_entrance(); go(FIND)
           fi }
    :: d_step { pc == GIVE_UP -> say();
           if
           :: slot[entrance_at] == entrance[me] -> slot[entrance_at] = 0
           :: else
           fi;
           deny() }
#if defined(BUG_STALE_INITIAL) || defined(BUG_HELP_UNCHARGED)
    /* Another's claim is completed with what was known earlier, or without a charge. */
    :: d_step { pc == HELP -> say();
           if
           :: slot[entrance_at] == entrance[me] ->
              slot[entrance_at] = MEMBER(key, first);
              check_members()
           :: else
           fi;
           forget_entrance();
           go(ENTER) }
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
           forget_entrance();
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
