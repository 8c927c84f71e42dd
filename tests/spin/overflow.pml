/*
 * overflow: a key that finds no place is charged to the overflow bucket, while other threads, whose now is later,
 * create the key (store/memory_op.c, table/claim.h). One step per atomic instruction.
 *
 * step             mirrors
 * LOOKUP           ration_lookup_read(): the key's own bucket; is_free() of its one place
 * READ             ration_lookup_read(): the overflow bucket
 * RAISE_WATERMARK  record_overflow(): ration_section_raise_overflow_watermark()
 * CHECK_CLAIM      record_overflow(): ration_claim_exists()
 * CHARGE           publish_present(): the swap of the overflow bucket
 * CLAIM            claim_slot()
 * READ_WATERMARK   inherit_overflow(): ration_section_overflow_watermark_ns()
 * INHERIT          inherit_overflow(): reads the overflow bucket
 * TOUCH            touch_overflow()
 * COMPLETE         publish_claimed(), ration_claim_abort()
 * TAKE             publish_present(): the swap of the key's own bucket
 *
 * Each thread takes one token of the same key, under a burst of BURST, and no token is refilled meanwhile. The key has
 * one place, where another key's bucket has tokens in use: the first EARLY threads find it so, the other threads find
 * that bucket idle.
 *
 * What is checked: at most BURST takes are admitted (R1), exactly BURST once all threads are done and at least as many
 * took (R3), and there is no cycle.
 *
 * What is abstracted: the creation of a key is one claim (see creation.pml for several); a thread that meets a claim
 * completes it like its own. Memory is sequentially consistent.
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

/* The place: of the other key; or of the key, as a claim with its number or as a member with its used tokens. */
#define OTHER      0
#define A_CLAIM(n) (16 + (n))
#define MEMBER(n)  (64 + (n))
#define IS_CLAIM(p)  ((p) >= 16 && (p) < 64)
#define IS_MEMBER(p) ((p) >= 64)
#define TAKEN(p)     ((p) - 64)

/* The overflow bucket: how often it was touched, and the tokens taken from it. */
#define BUCKET(touched, taken) ((touched) << 3 | (taken))
#define BUCKET_TAKEN(b)        ((b) & 7)
#define TOUCHED(b)             ((b) >> 3)

byte place = OTHER;
byte bucket;
bool watermark;
byte claim_count;
byte admitted, denied;

mtype = { LOOKUP, READ, RAISE_WATERMARK, CHECK_CLAIM, CHARGE, CLAIM, READ_WATERMARK, INHERIT, TOUCH, COMPLETE, TAKE, DONE }

inline say()
{
    printf("thread %d: %e; place %d, bucket %d.%d, watermark %d\n", me, pc, place, TOUCHED(bucket),
           BUCKET_TAKEN(bucket), watermark)
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
    mtype pc = LOOKUP;
    byte seen, mine, base;

    do
    :: d_step { pc == LOOKUP -> say();
           seen = place;
           if
           :: IS_MEMBER(seen) -> pc = TAKE
           :: IS_CLAIM(seen) -> mine = seen; pc = READ_WATERMARK
#ifdef BUG_WATERMARK_BEFORE_CLAIM
           :: seen == OTHER && me >= EARLY && watermark -> pc = CLAIM; base = 1
#endif
           :: seen == OTHER && me >= EARLY -> pc = CLAIM
           :: seen == OTHER && me < EARLY -> pc = READ
           fi }
    :: d_step { pc == TAKE -> say();
           if
           :: TAKEN(seen) >= BURST -> deny()
           :: TAKEN(seen) < BURST && place == seen -> place = MEMBER(TAKEN(seen) + 1); admit()
           :: else -> pc = LOOKUP
           fi }

    :: d_step { pc == READ -> say();
           seen = bucket;
#ifdef BUG_WATERMARK_LATE
           pc = CHECK_CLAIM }
#else
           pc = RAISE_WATERMARK }
#endif
    :: d_step { pc == RAISE_WATERMARK -> say();
           if
           :: BUCKET_TAKEN(seen) >= BURST -> deny()
           :: else ->
              watermark = true;
#ifdef BUG_NO_CLAIM_CHECK
              pc = CHARGE
#else
              pc = CHECK_CLAIM
#endif
           fi }
    :: d_step { pc == CHECK_CLAIM -> say();
           if
           :: BUCKET_TAKEN(seen) >= BURST -> deny()
           :: BUCKET_TAKEN(seen) < BURST && place != OTHER -> pc = LOOKUP
           :: else -> pc = CHARGE
           fi }
    :: d_step { pc == CHARGE -> say();
           if
           :: bucket == seen ->
              bucket = BUCKET(TOUCHED(seen), BUCKET_TAKEN(seen) + 1);
#ifdef BUG_WATERMARK_LATE
              watermark = true;
#endif
              admit()
           :: else -> pc = LOOKUP
           fi }

    :: d_step { pc == CLAIM -> say();
           if
           :: place == OTHER ->
              claim_count++;
              mine = A_CLAIM(claim_count);
              place = mine;
              pc = READ_WATERMARK
           :: else -> pc = LOOKUP
           fi }
    :: d_step { pc == READ_WATERMARK -> say();
#ifdef BUG_WATERMARK_BEFORE_CLAIM
           if
           :: base -> pc = INHERIT
           :: else -> pc = COMPLETE
           fi;
           base = 0 }
#else
           base = 0;
           pc = (watermark -> INHERIT : COMPLETE) }
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
           :: else -> base = 0; pc = LOOKUP
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
