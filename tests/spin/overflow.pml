/*
 * overflow: a key that finds no place is charged to the overflow bucket, while others, for whom it
 * is later, create it (store/memory_op.c, table/claim.h). One step per atomic instruction.
 *
 * step        mirrors
 * LOOK        ration_lookup_read(): the key's own bucket; is_free() of its one place
 * READ        ration_lookup_read(): the overflow bucket
 * NOTE        record_overflow(): ration_section_raise_overflow_watermark()
 * LOOK_AGAIN  record_overflow(): ration_claim_exists()
 * CHARGE      publish_present(): the swap of the overflow bucket
 * CLAIM       claim_slot()
 * SEEN        inherit_overflow(): ration_section_overflow_watermark_ns()
 * INHERIT     inherit_overflow(): the overflow bucket read
 * TOUCH       touch_overflow()
 * COMPLETE    publish_claimed(), ration_claim_abort()
 * TAKE        publish_present(): the swap of the key's own bucket
 *
 * All threads ask for one token of the same key, under a burst of BURST, and nothing comes back
 * meanwhile. The key has one place, which another key's debt takes: for the first EARLY threads that
 * is still so, for the others it is idle.
 *
 * What is checked: no more than BURST are admitted (R1), exactly BURST if all are done and as many
 * asked (R3), and no cycle.
 *
 * What is abstracted: creation is one claim here (see creation.pml for several); who meets a claim
 * sees it through as its own. Memory is sequentially consistent.
 */

#ifndef THREADS
#define THREADS 3
#endif
#ifndef EARLY
#define EARLY 2
#endif
#ifndef BURST
#define BURST 1
#endif

/* The place: the other's, or of the key: a claim with its number, or a member with what it took. */
#define OTHER      0
#define A_CLAIM(n) (16 + (n))
#define MEMBER(n)  (64 + (n))
#define IS_CLAIM(p)  ((p) >= 16 && (p) < 64)
#define IS_MEMBER(p) ((p) >= 64)
#define TAKEN(p)     ((p) - 64)

/* The overflow bucket: how often it was touched, and what is taken. */
#define BUCKET(touched, taken) ((touched) << 3 | (taken))
#define BUCKET_TAKEN(b)        ((b) & 7)
#define TOUCHED(b)             ((b) >> 3)

byte place = OTHER;
byte bucket;
bool note;
byte claim_count;
byte admitted, denied;

mtype = { LOOK, READ, NOTE, LOOK_AGAIN, CHARGE, CLAIM, SEEN, INHERIT, TOUCH, COMPLETE, TAKE, DONE }

inline say()
{
    printf("thread %d: %e; place %d, bucket %d.%d, note %d\n", me, pc, place, TOUCHED(bucket),
           BUCKET_TAKEN(bucket), note)
}

inline admit()
{
    admitted++;
    assert(admitted <= BURST);
    seen = 0; base = 0; mine = 0; pc = DONE
}

inline deny()
{
    denied++;
    seen = 0; base = 0; mine = 0; pc = DONE
}

proctype thread(byte me)
{
    mtype pc = LOOK;
    byte seen, mine, base;

    do
    :: d_step { pc == LOOK -> say();
           seen = place;
           if
           :: IS_MEMBER(seen) -> pc = TAKE
           :: IS_CLAIM(seen) -> mine = seen; pc = SEEN
#ifdef BUG_NOTE_BEFORE_CLAIM
           :: seen == OTHER && me >= EARLY && note -> pc = CLAIM; base = 1
#endif
           :: seen == OTHER && me >= EARLY -> pc = CLAIM
           :: seen == OTHER && me < EARLY -> pc = READ
           fi }
    :: d_step { pc == TAKE -> say();
           if
           :: TAKEN(seen) >= BURST -> deny()
           :: TAKEN(seen) < BURST && place == seen -> place = MEMBER(TAKEN(seen) + 1); admit()
           :: else -> pc = LOOK
           fi }

    :: d_step { pc == READ -> say();
           seen = bucket;
#ifdef BUG_NOTE_LATE
           pc = LOOK_AGAIN }
#else
           pc = NOTE }
#endif
    :: d_step { pc == NOTE -> say();
           if
           :: BUCKET_TAKEN(seen) >= BURST -> deny()
           :: else ->
              note = true;
#ifdef BUG_NO_LOOK
              pc = CHARGE
#else
              pc = LOOK_AGAIN
#endif
           fi }
    :: d_step { pc == LOOK_AGAIN -> say();
           if
           :: BUCKET_TAKEN(seen) >= BURST -> deny()
           :: BUCKET_TAKEN(seen) < BURST && place != OTHER -> pc = LOOK
           :: else -> pc = CHARGE
           fi }
    :: d_step { pc == CHARGE -> say();
           if
           :: bucket == seen ->
              bucket = BUCKET(TOUCHED(seen), BUCKET_TAKEN(seen) + 1);
#ifdef BUG_NOTE_LATE
              note = true;
#endif
              admit()
           :: else -> pc = LOOK
           fi }

    :: d_step { pc == CLAIM -> say();
           if
           :: place == OTHER ->
              claim_count++;
              mine = A_CLAIM(claim_count);
              place = mine;
              pc = SEEN
           :: else -> pc = LOOK
           fi }
    :: d_step { pc == SEEN -> say();
#ifdef BUG_NOTE_BEFORE_CLAIM
           if
           :: base -> pc = INHERIT
           :: else -> pc = COMPLETE
           fi;
           base = 0 }
#else
           base = 0;
           pc = (note -> INHERIT : COMPLETE) }
#endif
    :: d_step { pc == INHERIT -> say();
           seen = bucket;
#ifdef BUG_NO_TOUCH
           base = BUCKET_TAKEN(seen);
           pc = COMPLETE }
#else
           pc = TOUCH }
#endif
    :: d_step { pc == TOUCH -> say();
           if
           :: bucket == seen ->
              bucket = BUCKET(TOUCHED(seen) + 1, BUCKET_TAKEN(seen));
              base = BUCKET_TAKEN(seen);
              pc = COMPLETE
           :: else -> pc = INHERIT
           fi }
    :: d_step { pc == COMPLETE -> say();
           if
           :: place == mine && base < BURST -> place = MEMBER(base + 1); admit()
           :: place == mine && base >= BURST -> place = OTHER; deny()
           :: else -> base = 0; pc = LOOK
           fi }
    :: pc == DONE -> break
    od
}

init
{
    byte i;

    atomic {
        i = 0;
        do
        :: i < THREADS -> run thread(i); i++
        :: else -> break
        od
    }
    (admitted + denied == THREADS);
    assert(admitted == BURST)
}
