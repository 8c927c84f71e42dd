/*
 * commit: changes of one entry and of several together (table/descriptor.h, entry.h, commit.h), one step
 * per atomic instruction.
 *
 * step               mirrors
 * READ_*             ration_entry_read(), read_cells()
 * TAKE               try_take(); with INHERIT: try_recover() as well
 * INHERIT_*          ration_commit_finish()
 * BEGIN              begin_sequence()
 * WRITE_*            fill_descriptor(), ration_commit_write_part()
 * CHANGE             ration_entry_change(), ration_entry_complete(): the swap that names the seat
 * OPEN_SEAT, RESULT  ration_commit()
 * LEAVE              ration_descriptor_leave()
 * PLAN_*             ration_commit_resolve(): read_plan(), and whether the plan holds the entry
 * HOLD_*             prepare_entry()
 * DECIDE             decide_outcome()
 * STATE              complete_plan(): what was decided
 * COPY_*             ration_entry_copy(), copy_cell()
 * PUT_HEAD, LET_GO   apply_part(), roll_back()
 * PUT_CLAIM          claim_slot(): an idle entry is given to another key
 *
 * There are two entries with two cells each. A thread changes both (a commit), or one of them. It
 * reads, takes a seat, changes, leaves, and starts over if that failed. What it writes into the
 * cells is the number of the attempt, so a cell shows who wrote it.
 *
 * What is checked, in every state of every interleaving:
 *
 * - all or nothing: what the two heads and the seats say together (OUTSIDE) is what the decided
 *   changes make, at the step that decides and at no other
 * - a cell is given only what the change of its version wrote (so a view, whose cells are all
 *   of its head's version, is never a mixture and shows nothing that was not decided)
 * - a change that reports success took place once, one that reports failure did not; a dead
 *   thread's took place at most once
 * - the chain of commits that a thread sees through for others is no longer than the entries
 *   allow (DEPTH)
 * - there is no cycle, whatever the scheduler does: somebody always gets on, with any thread dead.
 *   (Where there are fewer seats than threads, who finds none waits for a living owner: seat.c.
 *   In CASE_DEATH and CASE_DEATHS that is what it does, and nobody waits for ever.)
 *
 * CASE            threads
 * CASE_TURNS      two that commit both entries, twice each: late helpers, seats used again
 * CASE_MIXED      one commits both entries twice, one changes one of them twice
 * CASE_THREE      one commits both, one changes the first entry, one the second
 * CASE_COMMITS    two commit both, one changes the second entry. With COARSE, see below
 * CASE_RENEW      one commits both, one changes the second, which one gives to another key
 * CASE_CLAIM      as CASE_THREE, but the first entry is a claim
 * CASE_DEATH      one seat; the first thread may die anywhere; the other must get its change done
 * CASE_DEATHS     two seats, three threads, the first may die; the others share what it leaves.
 *                 With COARSE
 *
 * What is abstracted:
 *
 * - Versions and turns are as large as the changes here need (no wrapping around). No generation,
 *   section, or ring: they are written and read along with the words that are in here.
 * - A seat's cell is read in one step, where C reads two words. Whoever reads the halves of two
 *   turns reads what does not count, as does who reads the whole of a later turn; that is in here.
 * - What only its owner can see of a seat is no step: its own reads of it, and read_plan() there.
 * - Once a commit is decided it stays so; further looks at it, by prepare_entry() and decide_outcome(), are left
 *   out.
 * - COARSE: a thread writes its seat in one step, and reads a plan in one (between the two looks
 *   at its turn).
 * - How a claim comes to stand is not in here (see creation.pml). A thread that meets a claim gives
 *   up, but for CASE_CLAIM, where all have found that it stands alone.
 * - Without INHERIT, a thread that dies is one that takes no further step: an interleaving like
 *   any other.
 * - Memory is sequentially consistent. That the code's orders and fences make it so is not shown.
 *
 * The seeded bugs are the BUG_ below. BUG_DEEP_HELP is no invention: this model found it.
 */

#define CELLS 2

#if defined(CASE_TURNS) || defined(CASE_MIXED) || defined(CASE_DEATH)
#define THREADS 2
#else
#define THREADS 3
#endif

#if defined(CASE_DEATH)
#define SEATS   1
#define INHERIT 1
#elif defined(CASE_DEATHS)
#define SEATS   2
#define INHERIT 1
#else
#define SEATS THREADS
#endif

/* Attempts to change something are numbered: thread + 1, + THREADS, ... */
#define ATTEMPTS 16

/* Commits at once in the hands of one thread: its own, and one that holds an entry. */
#define DEPTH 2

/* A head's word: turn 3, seat 2, state 2, version 3 bits. */
#define LIVE       0
#define HELD       1
#define CLAIM      2
#define HELD_CLAIM 3 /* in C: HELD, with the generation of a claim */

#define VERSION(word)                    ((word) & 7)
#define STATE_OF(word)                   (((word) >> 3) & 3)
#define SEAT(word)                       (((word) >> 5) & 3)
#define TURN(word)                       (((word) >> 7) & 7)
#define WORD(version, state, seat, turn) ((turn) << 7 | (seat) << 5 | (state) << 3 | (version))
#define IS_HELD(word)                    (STATE_OF(word) & HELD)

/* What an entry is held as, and what it is again when it was held in vain. */
#define HELD_AS(word) (STATE_OF(word) == CLAIM -> HELD_CLAIM : HELD)
#ifdef BUG_CLAIM_FORGOTTEN
#define WAS(word) LIVE
#else
#define WAS(word) (STATE_OF(word) == HELD_CLAIM -> CLAIM : LIVE)
#endif

/* A cell: who wrote it, and the label, 3 bits. */
#define LABEL(cell)          ((cell) & 7)
#define WRITER(cell)         ((cell) >> 3)
#define CELL(label, writer)  ((writer) << 3 | (label))

/* A seat's turn and state. */
#define IDLE      0
#define OPEN      1
#define COMMITTED 2
#define ABORTED   3

short head[2];
byte cell[2 * CELLS];

byte owner[SEATS]; /* 0: free; else the thread + 1 */
byte turn[SEATS];  /* turn * 4 + state */
byte part_count[SEATS];
byte part_entry[SEATS * 2];
short part_expected[SEATS * 2];
byte seat_cell[SEATS * 2 * CELLS];

/*
 * What is compared with: how many changes of each entry took place, who made each of its versions,
 * and how often each attempt took place.
 */
byte version_count[2];
byte writer_of[2 * 8];
byte happened[ATTEMPTS];

bool is_dead; /* thread 0 */

#define OUTSIDE(e) \
    (!IS_HELD(head[e]) || turn[SEAT(head[e]) - 1] == TURN(head[e]) * 4 + COMMITTED \
         -> VERSION(head[e]) : VERSION(head[e]) - 1)

inline check()
{
    assert(OUTSIDE(0) == version_count[0] && OUTSIDE(1) == version_count[1])
}

/* The attempt takes place, on entry e. */
inline takes_place(e, number)
{
    version_count[e]++;
    writer_of[(e) * 8 + version_count[e]] = number
}

mtype = { READ_HEAD, READ_CELL, TAKE, INHERIT_TURN, INHERIT_HEAD, BEGIN, WRITE_COUNT, WRITE_ENTRY,
          WRITE_EXPECTED, WRITE_CELL, CHANGE, OPEN_SEAT, RESULT, LEAVE, PUT_CLAIM,
          PLAN_TURN, PLAN_COUNT, PLAN_ENTRY, PLAN_EXPECTED, PLAN_AGAIN,
          HOLD_STATE, HOLD_LOAD, HOLD_AGAIN, HOLD_SWAP, DECIDE, STATE,
          COPY_SOURCE, COPY_LOAD, COPY_SWAP, PUT_HEAD, LET_GO, LET_GO_LATE,
          COPIED_EARLY, UNDO, DONE }

/*
 * A line of the interleaving, when a trail is replayed: the two heads as version.state.seat.turn,
 * the four cells as label.writer, the first and the last seat as turn.state
 */
inline say()
{
    printf("thread %d: %e %d.%d; %d.%d.%d.%d %d.%d.%d.%d; %d.%d %d.%d %d.%d %d.%d; %d.%d %d.%d\n",
           me, pc, depth, i, VERSION(head[0]), STATE_OF(head[0]), SEAT(head[0]),
           TURN(head[0]), VERSION(head[1]), STATE_OF(head[1]), SEAT(head[1]), TURN(head[1]),
           LABEL(cell[0]), WRITER(cell[0]), LABEL(cell[1]), WRITER(cell[1]), LABEL(cell[2]),
           WRITER(cell[2]), LABEL(cell[3]), WRITER(cell[3]), turn[0] / 4, turn[0] % 4,
           turn[SEATS - 1] / 4, turn[SEATS - 1] % 4)
}

/* What a thread does. */
#define FIRST  1 /* changes the first entry */
#define SECOND 2
#define BOTH   3
#define RENEW  4 /* gives the second entry to another key */

#define FROM (kind == FIRST || kind == BOTH -> 0 : 1) /* the entries it is about */
#define TO   (kind == FIRST -> 0 : 1)
#define PARTS (kind == BOTH -> 2 : 1)

/* The entry of its part p: in the order of addresses, whatever the order they were asked for. */
#if defined(BUG_NO_ORDER)
#define ENTRY_OF(p) (kind == BOTH -> (me == 0 -> (p) : 1 - (p)) : FROM)
#else
#define ENTRY_OF(p) (FROM + (p))
#endif

/*
 * The commits that a thread sees through, the latest on top: struct plan, and how far it is. In
 * each the part at hand.
 */
#define TOP          (depth - 1)
#define PLAN_PART(p) ((depth - 1) * 2 + (p))
#define ENTRY        plan_entry[PLAN_PART(plan_part[TOP])]
#define EXPECTED     plan_expected[PLAN_PART(plan_part[TOP])]
#define HELD_WORD(p) WORD(VERSION(plan_expected[PLAN_PART(p)]) + 1, \
                          HELD_AS(plan_expected[PLAN_PART(p)]), plan_seat[TOP] + 1, plan_turn[TOP])
#define HELD_HERE    HELD_WORD(plan_part[TOP])
#define IS_IN(state) (turn[plan_seat[TOP]] == plan_turn[TOP] * 4 + (state))

inline drop_plan()
{
    plan_seat[TOP] = 0;
    plan_turn[TOP] = 0;
    plan_parts[TOP] = 0;
    plan_part[TOP] = 0;
    plan_entry[PLAN_PART(0)] = 0;
    plan_entry[PLAN_PART(1)] = 0;
    plan_expected[PLAN_PART(0)] = 0;
    plan_expected[PLAN_PART(1)] = 0;
    depth--
}

/* Back from ration_commit_resolve(), to prepare_entry() or to what the thread itself is about. */
inline back()
{
    i = 0;
    if
    :: depth > 0 -> pc = HOLD_STATE
    :: else -> pc = then; then = 0
    fi
}

inline resolve(e, word)
{
    assert(depth < DEPTH);
    late_entry = e;
    late_word = word;
    depth++;
    plan_seat[TOP] = SEAT(late_word) - 1;
    pc = PLAN_TURN
}

/* The entry is held by a turn that is over. */
inline too_late()
{
    drop_plan();
    pc = LET_GO_LATE
}

#if defined(BUG_NO_TURN)
#define HOLDS(p) (plan_entry[PLAN_PART(p)] == late_entry)
#else
#define HOLDS(p) (plan_entry[PLAN_PART(p)] == late_entry && HELD_WORD(p) == late_word)
#endif

inline read_plan_part(p)
{
    plan_entry[PLAN_PART(p)] = part_entry[plan_seat[TOP] * 2 + p];
    plan_expected[PLAN_PART(p)] = part_expected[plan_seat[TOP] * 2 + p]
}

/* The part at hand is held: to the next, or to the decision. */
inline next_hold()
{
    plan_part[TOP] = plan_part[TOP] + 1;
    if
    :: plan_part[TOP] < plan_parts[TOP] -> pc = HOLD_STATE
    :: else -> plan_part[TOP] = 0; outcome = COMMITTED; pc = DECIDE
    fi
}

inline copy(e, seat, part, version, next)
{
    copy_entry = e;
    copy_from = (seat) * 2 * CELLS + (part) * CELLS;
    copy_version = version;
    after_copy = next;
    i = 0;
    pc = COPY_SOURCE
}

inline copied()
{
    i++;
    copy_writer = 0;
    copy_seen = 0;
    if
    :: i < CELLS -> pc = COPY_SOURCE
    :: else ->
       i = 0;
       copy_entry = 0;
       copy_from = 0;
       copy_version = 0;
       pc = after_copy;
       after_copy = 0
    fi
}

inline held()
{
#ifdef BUG_ROLLBACK
    copy(ENTRY, plan_seat[TOP], plan_part[TOP], VERSION(EXPECTED) + 1, COPIED_EARLY)
#else
    next_hold()
#endif
}

inline copy_part()
{
    copy(ENTRY, plan_seat[TOP], plan_part[TOP], VERSION(EXPECTED) + 1, PUT_HEAD)
}

inline finish()
{
    e = 0;
    i = 0;
    pc = DONE
}

#ifdef INHERIT
#define IS_GONE(seat) (owner[seat] == 1 && is_dead)
#else
#define IS_GONE(seat) false
#endif
#define IS_FREE(seat) (owner[seat] == 0 || (i >= SEATS && IS_GONE(seat)))

proctype thread(byte me; byte kind; byte changes)
{
    mtype pc = READ_HEAD, then, after_copy;
    byte number = me + 1; /* of the attempt */
    byte e = FROM, i, seat, outcome;
    bool is_done;
    short view[2];

    byte depth;
    byte plan_seat[DEPTH], plan_turn[DEPTH], plan_parts[DEPTH], plan_part[DEPTH];
    byte plan_entry[DEPTH * 2];
    short plan_expected[DEPTH * 2];

    byte late_entry;
    short late_word, word;
    byte copy_entry, copy_from, copy_version, copy_writer, copy_seen;

    do
    :: d_step { pc == READ_HEAD -> say();
           if
           :: STATE_OF(head[e]) == LIVE -> view[e] = head[e]; i = 0; pc = READ_CELL
#ifdef BUG_WAITS
           :: IS_HELD(head[e])
#else
           :: IS_HELD(head[e]) -> then = READ_HEAD; resolve(e, head[e])
#endif
#ifdef CASE_CLAIM
           :: STATE_OF(head[e]) == CLAIM -> /* it has no cells */
              view[e] = head[e];
              if
              :: e < TO -> e++
              :: else -> e = 0; pc = TAKE
              fi
#endif
           :: else -> view[0] = 0; view[1] = 0; finish() /* the key is not there */
           fi }
    :: d_step { pc == READ_CELL -> say();
           if
           :: LABEL(cell[e * CELLS + i]) == VERSION(view[e]) ->
              assert(WRITER(cell[e * CELLS + i]) == writer_of[e * 8 + VERSION(view[e])]);
              i++;
              if
              :: i < CELLS
              :: i == CELLS && e < TO -> i = 0; e++; pc = READ_HEAD
              :: i == CELLS && e == TO -> i = 0; e = 0; pc = (kind == RENEW -> PUT_CLAIM : TAKE)
              fi
           :: else ->
              word = view[e];
              view[e] = 0;
              if
              :: SEAT(word) > 0 -> copy(e, SEAT(word) - 1, 0, VERSION(word), READ_HEAD)
              :: else -> i = 0; pc = READ_HEAD
              fi;
              word = 0
           fi }

    :: d_step { pc == PUT_CLAIM -> say();
           if
           :: head[1] == view[1] ->
              head[1] = WORD(VERSION(view[1]) + 1, CLAIM, 0, 0);
              view[1] = head[1];
              takes_place(1, 0);
              check();
              pc = TAKE
           :: else -> view[1] = 0; e = 1; pc = READ_HEAD
           fi }

    /* Through the seats from its own on; those of the dead only after one round. */
    :: d_step { pc == TAKE && IS_FREE((me + i) % SEATS) -> say();
           seat = (me + i) % SEATS;
           i = 0;
#ifdef BUG_NOT_FINISHED
           pc = BEGIN;
#else
           pc = (owner[seat] == 0 -> BEGIN : INHERIT_TURN);
#endif
           owner[seat] = me + 1 }
#ifdef INHERIT
    :: d_step { pc == TAKE && !IS_FREE((me + i) % SEATS) && i + 1 < 2 * SEATS -> say(); i++ }
    /* All seats are taken by running threads: sched_yield(). */
    :: d_step { pc == TAKE && !IS_FREE((me + i) % SEATS) && i + 1 == 2 * SEATS &&
                (owner[0] == 0 || owner[SEATS - 1] == 0 || IS_GONE(0) || IS_GONE(SEATS - 1)) ->
           say(); i = SEATS }
    :: d_step { pc == INHERIT_TURN -> say();
           if
           :: turn[seat] % 4 != IDLE ->
              depth = 1;
              plan_seat[0] = seat;
              plan_turn[0] = turn[seat] / 4;
              plan_parts[0] = part_count[seat];
              read_plan_part(0);
              if
              :: part_count[seat] > 1 -> read_plan_part(1)
              :: else
              fi;
              then = BEGIN;
              pc = HOLD_STATE
           :: turn[seat] % 4 == IDLE && turn[seat] > 0 && part_count[seat] == 1 ->
              pc = INHERIT_HEAD
           :: else -> pc = BEGIN
           fi }
    :: d_step { pc == INHERIT_HEAD -> say();
           word = head[part_entry[seat * 2]];
           if
           :: STATE_OF(word) == LIVE && SEAT(word) == seat + 1 && TURN(word) == turn[seat] / 4 ->
              copy(part_entry[seat * 2], seat, 0, VERSION(word), BEGIN)
           :: else -> pc = BEGIN
           fi;
           word = 0 }
#endif
    :: d_step { pc == BEGIN -> say();
           turn[seat] = (turn[seat] / 4 + 1) * 4 + IDLE;
           assert(turn[seat] / 4 < 8 && number < ATTEMPTS); /* what the model has room for */
           check();
           pc = WRITE_COUNT }

    :: d_step { pc == WRITE_COUNT -> say();
           part_count[seat] = PARTS;
           e = 0; /* here: the part */
#ifdef COARSE
           do
           :: e < PARTS ->
              part_entry[seat * 2 + e] = ENTRY_OF(e);
              part_expected[seat * 2 + e] = view[ENTRY_OF(e)];
              seat_cell[(seat * 2 + e) * CELLS] = number;
              seat_cell[(seat * 2 + e) * CELLS + 1] = number;
              e++
           :: else -> break
           od;
           e = 0;
           pc = (kind == BOTH -> OPEN_SEAT : CHANGE) }
#else
           pc = WRITE_ENTRY }
    :: d_step { pc == WRITE_ENTRY -> say();
           part_entry[seat * 2 + e] = ENTRY_OF(e);
           pc = WRITE_EXPECTED }
    :: d_step { pc == WRITE_EXPECTED -> say();
           part_expected[seat * 2 + e] = view[ENTRY_OF(e)];
           pc = WRITE_CELL }
    :: d_step { pc == WRITE_CELL -> say();
           seat_cell[(seat * 2 + e) * CELLS + i] = number;
           i++;
           if
           :: i < CELLS
           :: i == CELLS && e + 1 < PARTS -> i = 0; e++; pc = WRITE_ENTRY
           :: i == CELLS && e + 1 == PARTS ->
              i = 0;
              e = 0;
              pc = (kind == BOTH -> OPEN_SEAT : CHANGE)
           fi }
#endif

    :: d_step { pc == CHANGE -> say();
           if
           :: head[FROM] == view[FROM] ->
              head[FROM] = WORD(VERSION(view[FROM]) + 1, LIVE, seat + 1, turn[seat] / 4);
              takes_place(FROM, number);
              happened[number]++;
              assert(happened[number] == 1);
              check();
              is_done = true;
#ifdef BUG_LEAVES_EARLY
              pc = LEAVE
#else
              copy(FROM, seat, 0, VERSION(head[FROM]), LEAVE)
#endif
           :: else -> pc = LEAVE
           fi;
           view[FROM] = 0 }

    :: d_step { pc == OPEN_SEAT -> say();
           turn[seat] = turn[seat] + OPEN;
           depth = 1;
           plan_seat[0] = seat;
           plan_turn[0] = turn[seat] / 4;
           plan_parts[0] = 2;
           read_plan_part(0);
           read_plan_part(1);
           view[0] = 0;
           view[1] = 0;
           then = RESULT;
           pc = HOLD_STATE }
    :: d_step { pc == RESULT -> say();
           is_done = (turn[seat] % 4 == COMMITTED);
           pc = LEAVE }

    :: d_step { pc == LEAVE -> say();
           owner[seat] = 0;
           assert(happened[number] == is_done);
#ifdef BUG_LEAVES_EARLY
           if
           :: is_done && kind != BOTH -> copy(FROM, seat, 0, VERSION(head[FROM]), DONE)
           :: else -> pc = DONE
           fi;
#else
           pc = DONE;
#endif
           seat = 0;
           if
           :: is_done -> changes--
           :: else
           fi;
           is_done = false;
           number = number + THREADS;
           if
           :: pc == DONE && changes > 0 -> e = FROM; pc = READ_HEAD
           :: else
           fi }

    :: d_step { pc == PLAN_TURN -> say();
           plan_turn[TOP] = turn[plan_seat[TOP]] / 4;
           if
           :: turn[plan_seat[TOP]] % 4 == IDLE -> too_late()
           :: else -> pc = PLAN_COUNT
           fi }
    :: d_step { pc == PLAN_COUNT -> say();
           plan_parts[TOP] = part_count[plan_seat[TOP]];
           i = 0;
#ifdef COARSE
           read_plan_part(0);
           if
           :: plan_parts[TOP] > 1 -> read_plan_part(1)
           :: else
           fi;
           pc = PLAN_AGAIN }
#else
           pc = PLAN_ENTRY }
    :: d_step { pc == PLAN_ENTRY -> say();
           plan_entry[PLAN_PART(i)] = part_entry[plan_seat[TOP] * 2 + i];
           pc = PLAN_EXPECTED }
    :: d_step { pc == PLAN_EXPECTED -> say();
           plan_expected[PLAN_PART(i)] = part_expected[plan_seat[TOP] * 2 + i];
           i++;
           if
           :: i < plan_parts[TOP] -> pc = PLAN_ENTRY
           :: else -> i = 0; pc = PLAN_AGAIN
           fi }
#endif
    :: d_step { pc == PLAN_AGAIN -> say();
           if
           :: turn[plan_seat[TOP]] / 4 == plan_turn[TOP] &&
              (HOLDS(0) || (plan_parts[TOP] > 1 && HOLDS(1))) ->
              late_entry = 0;
              late_word = 0;
              pc = HOLD_STATE
           :: else -> too_late()
           fi }

    :: d_step { pc == HOLD_STATE -> say();
           if
           :: IS_IN(OPEN) -> pc = HOLD_LOAD
           :: else -> plan_part[TOP] = 0; pc = STATE
           fi }
    :: d_step { pc == HOLD_LOAD -> say();
           word = head[ENTRY];
           if
           :: word == HELD_HERE -> word = 0; held()
#ifdef BUG_NO_VERSION
           :: STATE_OF(word) == LIVE -> pc = HOLD_SWAP
#else
           :: STATE_OF(word) == STATE_OF(EXPECTED) && VERSION(word) == VERSION(EXPECTED) ->
              pc = HOLD_SWAP
#endif
           :: IS_HELD(word) && word != HELD_HERE ->
#ifdef BUG_DEEP_HELP
              i = ENTRY;
              resolve(i, word);
              i = 0;
              word = 0
#else
              pc = HOLD_AGAIN
#endif
           :: else -> word = 0; plan_part[TOP] = 0; outcome = ABORTED; pc = DECIDE
           fi }
    :: d_step { pc == HOLD_AGAIN -> say();
           if
           :: IS_IN(OPEN) -> i = ENTRY; resolve(i, word); i = 0
           :: else -> plan_part[TOP] = 0; pc = STATE
           fi;
           word = 0 }
    :: d_step { pc == HOLD_SWAP -> say();
           if
#ifdef BUG_NO_VERSION
           :: STATE_OF(head[ENTRY]) == LIVE ->
#else
           :: head[ENTRY] == word ->
#endif
              head[ENTRY] = HELD_HERE;
              check();
              held()
           :: else -> pc = HOLD_STATE
           fi;
           word = 0 }
#ifdef BUG_ROLLBACK
    :: d_step { pc == COPIED_EARLY -> say(); next_hold() }
    :: d_step { pc == UNDO -> say();
           if
           :: LABEL(cell[ENTRY * CELLS + i]) == VERSION(EXPECTED) + 1 ->
              cell[ENTRY * CELLS + i] =
                  CELL(VERSION(EXPECTED), writer_of[ENTRY * 8 + VERSION(EXPECTED)])
           :: else
           fi;
           i++;
           if
           :: i < CELLS
           :: else -> i = 0; pc = LET_GO
           fi }
#endif
    :: d_step { pc == DECIDE -> say();
           if
           :: IS_IN(OPEN) ->
              turn[plan_seat[TOP]] = plan_turn[TOP] * 4 + outcome;
              if
              :: outcome == COMMITTED ->
                 i = seat_cell[plan_seat[TOP] * 2 * CELLS]; /* whose */
                 takes_place(0, i);
                 takes_place(1, i);
                 happened[i]++;
                 assert(happened[i] == 1);
                 i = 0
              :: else
              fi;
              check()
           :: else
           fi;
           outcome = 0;
           pc = STATE }
    :: d_step { pc == STATE -> say();
           if
           :: IS_IN(COMMITTED) -> copy_part()
#ifdef BUG_ROLLBACK
           :: IS_IN(ABORTED) -> i = 0; pc = UNDO
#else
           :: IS_IN(ABORTED) -> pc = LET_GO
#endif
           :: else -> drop_plan(); back()
           fi }

    :: d_step { pc == COPY_SOURCE -> say();
           copy_writer = seat_cell[copy_from + i];
           pc = COPY_LOAD }
    :: d_step { pc == COPY_LOAD -> say();
           copy_seen = cell[copy_entry * CELLS + i];
           if
           :: LABEL(copy_seen) < copy_version -> pc = COPY_SWAP
           :: else -> copied()
           fi }
    :: d_step { pc == COPY_SWAP -> say();
           if
#ifdef BUG_COPY_UNSEEN
           :: true ->
#else
           :: cell[copy_entry * CELLS + i] == copy_seen ->
#endif
#ifndef BUG_ROLLBACK /* which is to be caught by a reader */
              assert(writer_of[copy_entry * 8 + copy_version] == copy_writer);
#endif
              cell[copy_entry * CELLS + i] = CELL(copy_version, copy_writer);
              copied()
           :: cell[copy_entry * CELLS + i] != copy_seen ->
              copy_seen = cell[copy_entry * CELLS + i];
              if
              :: LABEL(copy_seen) < copy_version
              :: else -> copied()
              fi
           fi }

    :: d_step { pc == PUT_HEAD -> say();
           if
           :: head[ENTRY] == HELD_HERE ->
              head[ENTRY] = WORD(VERSION(EXPECTED) + 1, LIVE, 0, 0);
              check()
           :: else
           fi;
           plan_part[TOP] = plan_part[TOP] + 1;
           if
           :: plan_part[TOP] < plan_parts[TOP] -> copy_part()
           :: else -> drop_plan(); back()
           fi }
    :: d_step { pc == LET_GO -> say();
           if
           :: head[ENTRY] == HELD_HERE ->
              head[ENTRY] = WORD(VERSION(EXPECTED), WAS(HELD_HERE), 0, 0);
              check()
           :: else
           fi;
           plan_part[TOP] = plan_part[TOP] + 1;
           if
#ifdef BUG_ROLLBACK
           :: plan_part[TOP] < plan_parts[TOP] -> pc = UNDO
#else
           :: plan_part[TOP] < plan_parts[TOP]
#endif
           :: else -> drop_plan(); back()
           fi }
    :: d_step { pc == LET_GO_LATE -> say();
           if
           :: head[late_entry] == late_word ->
              head[late_entry] = WORD(VERSION(late_word) - 1, WAS(late_word), 0, 0);
              check()
           :: else
           fi;
           late_entry = 0;
           late_word = 0;
           back() }
#ifdef INHERIT
    :: d_step { me == 0 && pc != DONE -> say(); is_dead = true; pc = DONE }
#endif
    :: pc == DONE -> break
    od
}

init
{
    atomic {
#if defined(CASE_TURNS)
        run thread(0, BOTH, 2);
        run thread(1, BOTH, 2)
#elif defined(CASE_MIXED)
        run thread(0, BOTH, 2);
        run thread(1, FIRST, 2)
#elif defined(CASE_THREE)
        run thread(0, BOTH, 1);
        run thread(1, FIRST, 1);
        run thread(2, SECOND, 1)
#elif defined(CASE_COMMITS)
        run thread(0, BOTH, 1);
        run thread(1, BOTH, 1);
        run thread(2, SECOND, 1)
#elif defined(CASE_RENEW)
        run thread(0, BOTH, 1);
        run thread(1, SECOND, 1);
        run thread(2, RENEW, 1)
#elif defined(CASE_CLAIM)
        head[0] = WORD(1, CLAIM, 0, 0);
        version_count[0] = 1;
        run thread(0, BOTH, 1);
        run thread(1, FIRST, 1);
        run thread(2, SECOND, 1)
#elif defined(CASE_DEATH)
        if
        :: run thread(0, BOTH, 1)
        :: run thread(0, FIRST, 1)
        fi;
        run thread(1, BOTH, 2)
#elif defined(CASE_DEATHS)
        run thread(0, BOTH, 1);
        run thread(1, FIRST, 1);
        run thread(2, SECOND, 1)
#endif
    }
}
