/*
 * commit: changes of one entry and of several together (table/descriptor.h, entry.h, commit.h), one step
 * per atomic instruction.
 *
 * step                     mirrors
 * READ_*                   ration_entry_read(), read_cells()
 * TAKE                     try_take(); with RECOVER: try_recover() as well
 * RECOVER_*                ration_commit_finish()
 * BEGIN                    begin_sequence()
 * WRITE_*                  fill_descriptor(), ration_commit_write_part()
 * CHANGE                   ration_entry_change(), ration_entry_complete(): the swap that names the descriptor
 * OPEN_DESCRIPTOR, RESULT  ration_commit()
 * LEAVE                    ration_descriptor_leave()
 * PLAN_*                   ration_commit_resolve(): read_plan(), and the check that the plan lists the entry
 * PREPARE_*                prepare_entry()
 * DECIDE                   decide_outcome()
 * STATE                    complete_plan(): reads the outcome
 * COPY_*                   ration_entry_copy(), copy_cell()
 * PUT_HEAD, ROLL_BACK      apply_part(), roll_back()
 * PUT_CLAIM                claim_slot(): gives an idle entry to another key
 *
 * There are two entries with two cells each. A thread changes both (a commit) or one of them. It reads the entries,
 * takes a descriptor, makes the change, gives the descriptor back, and starts again if the change failed. It writes
 * the number of the attempt into the cells, so a cell shows which attempt wrote it.
 *
 * What is checked, in every state of every interleaving:
 *
 * - All or nothing: the two heads and the descriptors together (OUTSIDE) show exactly the decided changes. A change
 *   becomes visible at the step that decides it and at no other.
 * - A cell gets only the value that the change of its version wrote. So a view, whose cells all have the version of
 *   its head, never mixes versions and shows only decided changes.
 * - A change that reports success took place once; a change that reports failure did not take place; the change of a
 *   dead thread took place at most once.
 * - The chain of other threads' commits that a thread completes is not longer than the number of entries allows
 *   (DEPTH).
 * - There is no cycle, whatever the scheduler does: some thread always makes progress, even if any thread is dead.
 *   (If there are fewer descriptors than threads, a thread that finds none free waits for a living owner:
 *   descriptor.c. This happens in CASE_DEATH and CASE_DEATHS, and no thread waits for ever.)
 *
 * CASE            threads
 * CASE_SEQUENCES  two commit both entries, twice each: late helpers, descriptors that are used again
 * CASE_MIXED      one commits both entries twice, one changes one of them twice
 * CASE_THREE      one commits both, one changes the first entry, one the second
 * CASE_COMMITS    two commit both, one changes the second entry. With COARSE, see below
 * CASE_RENEW      one commits both, one changes the second, one gives the second to another key
 * CASE_CLAIM      as CASE_THREE, but the first entry is a claim
 * CASE_DEATH      one descriptor; the first thread may die anywhere; the other must complete its change
 * CASE_DEATHS     two descriptors, three threads, the first may die; the others recover its descriptor. With COARSE
 *
 * What is abstracted:
 *
 * - Versions and sequences are as large as the changes here need; they do not wrap around. Generations, sections and
 *   rings are left out: the code reads and writes them together with the words that are modelled.
 * - A descriptor's cell is read in one step, where C reads two words. A thread that reads the halves from two
 *   sequences discards them, as does a thread that reads the whole cell of a later sequence; the second is modelled.
 * - A descriptor's owner takes no step for what no other thread can observe: its own reads of the descriptor, and
 *   read_plan() of it.
 * - A decided commit stays decided; the later reads of its state by prepare_entry() and decide_outcome() are left out.
 * - COARSE: a thread writes its descriptor in one step and reads a plan in one step (between its two reads of the
 *   sequence).
 * - The model does not show how a claim becomes the only one of its key (see creation.pml). A thread that meets a claim
 *   gives up, except in CASE_CLAIM, where all threads have found that the claim is the only one.
 * - Without RECOVER, a thread that dies is one that takes no further step: an interleaving like any other.
 * - Memory is sequentially consistent. The model does not show that the code's memory orders and fences achieve that.
 *
 * The seeded bugs are the BUG_ macros below. BUG_DEEP_HELP was a real bug that this model found.
 */

#define CELLS 2

#if defined(CASE_SEQUENCES) || defined(CASE_MIXED) || defined(CASE_DEATH)
#define THREADS 2
#else
#define THREADS 3
#endif

#if defined(CASE_DEATH)
#define DESCRIPTORS   1
#define RECOVER 1
#elif defined(CASE_DEATHS)
#define DESCRIPTORS   2
#define RECOVER 1
#else
#define DESCRIPTORS THREADS
#endif

/* Attempts to change something are numbered: thread + 1, + THREADS, ... */
#define ATTEMPTS 16

/* The most commits that one thread works on at once: its own, and one that has prepared an entry. */
#define DEPTH 2

/* A head's word: sequence 3 bits, descriptor 2, state 2, version 3. */
#define LIVE       0
#define PREPARED       1
#define CLAIM      2
#define PREPARED_CLAIM 3 /* in C: PREPARED, with the flag of a claim */

#define VERSION(word)                    ((word) & 7)
#define STATE_OF(word)                   (((word) >> 3) & 3)
#define DESCRIPTOR(word)                       (((word) >> 5) & 3)
#define SEQUENCE(word)                       (((word) >> 7) & 7)
#define WORD(version, state, descriptor, sequence) ((sequence) << 7 | (descriptor) << 5 | (state) << 3 | (version))
#define IS_PREPARED(word)                    (STATE_OF(word) & PREPARED)

/* The state of a prepared entry, and the state that a rollback restores. */
#define PREPARED_AS(word) (STATE_OF(word) == CLAIM -> PREPARED_CLAIM : PREPARED)
#ifdef BUG_CLAIM_FORGOTTEN
#define WAS(word) LIVE
#else
#define WAS(word) (STATE_OF(word) == PREPARED_CLAIM -> CLAIM : LIVE)
#endif

/* A cell: the attempt that wrote it, and its version, 3 bits. */
#define CELL_VERSION(cell)          ((cell) & 7)
#define WRITER(cell)         ((cell) >> 3)
#define CELL(version, writer)  ((writer) << 3 | (version))

/* A descriptor's sequence and state. */
#define IDLE      0
#define OPEN      1
#define COMMITTED 2
#define ABORTED   3

short head[2];
byte cell[2 * CELLS];

byte owner[DESCRIPTORS]; /* 0: free; else the thread + 1 */
byte sequence[DESCRIPTORS];  /* sequence * 4 + state */
byte part_count[DESCRIPTORS];
byte part_entry[DESCRIPTORS * 2];
short part_expected[DESCRIPTORS * 2];
byte descriptor_cell[DESCRIPTORS * 2 * CELLS];

/*
 * The expected state: how many changes of each entry took place, which attempt made each version, and how often each
 * attempt took place.
 */
byte version_count[2];
byte writer_of[2 * 8];
byte happened[ATTEMPTS];

bool is_dead; /* thread 0 */

#define OUTSIDE(e) \
    (!IS_PREPARED(head[e]) || sequence[DESCRIPTOR(head[e]) - 1] == SEQUENCE(head[e]) * 4 + COMMITTED \
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

mtype = { READ_HEAD, READ_CELL, TAKE, RECOVER_SEQUENCE, RECOVER_HEAD, BEGIN, WRITE_COUNT, WRITE_ENTRY,
          WRITE_EXPECTED, WRITE_CELL, CHANGE, OPEN_DESCRIPTOR, RESULT, LEAVE, PUT_CLAIM,
          PLAN_SEQUENCE, PLAN_COUNT, PLAN_ENTRY, PLAN_EXPECTED, PLAN_AGAIN,
          PREPARE_STATE, PREPARE_LOAD, PREPARE_AGAIN, PREPARE_SWAP, DECIDE, STATE,
          COPY_SOURCE, COPY_LOAD, COPY_SWAP, PUT_HEAD, ROLL_BACK, ROLL_BACK_LATE,
          COPIED_EARLY, UNDO, DONE }

/*
 * Prints one step when a trail is replayed: the two heads as version.state.descriptor.sequence, the four cells as
 * version.writer, the first and the last descriptor as sequence.state.
 */
inline say()
{
    printf("thread %d: %e %d.%d; %d.%d.%d.%d %d.%d.%d.%d; %d.%d %d.%d %d.%d %d.%d; %d.%d %d.%d\n",
           me, pc, depth, i, VERSION(head[0]), STATE_OF(head[0]), DESCRIPTOR(head[0]),
           SEQUENCE(head[0]), VERSION(head[1]), STATE_OF(head[1]), DESCRIPTOR(head[1]), SEQUENCE(head[1]),
           CELL_VERSION(cell[0]), WRITER(cell[0]), CELL_VERSION(cell[1]), WRITER(cell[1]), CELL_VERSION(cell[2]),
           WRITER(cell[2]), CELL_VERSION(cell[3]), WRITER(cell[3]), sequence[0] / 4, sequence[0] % 4,
           sequence[DESCRIPTORS - 1] / 4, sequence[DESCRIPTORS - 1] % 4)
}

/* What a thread does. */
#define FIRST  1 /* changes the first entry */
#define SECOND 2
#define BOTH   3
#define RENEW  4 /* gives the second entry to another key */

#define FROM (kind == FIRST || kind == BOTH -> 0 : 1) /* the entries that it changes */
#define TO   (kind == FIRST -> 0 : 1)
#define PARTS (kind == BOTH -> 2 : 1)

/* The entry of part p: in the order of addresses, whatever order the caller gave. */
#if defined(BUG_NO_ORDER)
#define ENTRY_OF(p) (kind == BOTH -> (me == 0 -> (p) : 1 - (p)) : FROM)
#else
#define ENTRY_OF(p) (FROM + (p))
#endif

/*
 * The commits that a thread completes, the latest on top: struct plan, and the current part of each.
 */
#define TOP          (depth - 1)
#define PLAN_PART(p) ((depth - 1) * 2 + (p))
#define ENTRY        plan_entry[PLAN_PART(plan_part[TOP])]
#define EXPECTED     plan_expected[PLAN_PART(plan_part[TOP])]
#define PREPARED_WORD(p) WORD(VERSION(plan_expected[PLAN_PART(p)]) + 1, \
                          PREPARED_AS(plan_expected[PLAN_PART(p)]), plan_descriptor[TOP] + 1, plan_sequence[TOP])
#define PREPARED_HERE    PREPARED_WORD(plan_part[TOP])
#define IS_IN(state) (sequence[plan_descriptor[TOP]] == plan_sequence[TOP] * 4 + (state))

inline drop_plan()
{
    plan_descriptor[TOP] = 0;
    plan_sequence[TOP] = 0;
    plan_parts[TOP] = 0;
    plan_part[TOP] = 0;
    plan_entry[PLAN_PART(0)] = 0;
    plan_entry[PLAN_PART(1)] = 0;
    plan_expected[PLAN_PART(0)] = 0;
    plan_expected[PLAN_PART(1)] = 0;
    depth--
}

/* Returns from ration_commit_resolve(): to prepare_entry() or to the thread's own change. */
inline back()
{
    i = 0;
    if
    :: depth > 0 -> pc = PREPARE_STATE
    :: else -> pc = then; then = 0
    fi
}

inline resolve(e, word)
{
    assert(depth < DEPTH);
    late_entry = e;
    late_word = word;
    depth++;
    plan_descriptor[TOP] = DESCRIPTOR(late_word) - 1;
    pc = PLAN_SEQUENCE
}

/* The sequence for which the entry is prepared has passed. */
inline too_late()
{
    drop_plan();
    pc = ROLL_BACK_LATE
}

#if defined(BUG_NO_SEQUENCE)
#define LISTS(p) (plan_entry[PLAN_PART(p)] == late_entry)
#else
#define LISTS(p) (plan_entry[PLAN_PART(p)] == late_entry && PREPARED_WORD(p) == late_word)
#endif

inline read_plan_part(p)
{
    plan_entry[PLAN_PART(p)] = part_entry[plan_descriptor[TOP] * 2 + p];
    plan_expected[PLAN_PART(p)] = part_expected[plan_descriptor[TOP] * 2 + p]
}

/* The current part is prepared: continues with the next one, or with the decision. */
inline prepare_next()
{
    plan_part[TOP] = plan_part[TOP] + 1;
    if
    :: plan_part[TOP] < plan_parts[TOP] -> pc = PREPARE_STATE
    :: else -> plan_part[TOP] = 0; outcome = COMMITTED; pc = DECIDE
    fi
}

inline copy(e, descriptor, part, version, next)
{
    copy_entry = e;
    copy_from = (descriptor) * 2 * CELLS + (part) * CELLS;
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

inline prepared()
{
#ifdef BUG_ROLLBACK
    copy(ENTRY, plan_descriptor[TOP], plan_part[TOP], VERSION(EXPECTED) + 1, COPIED_EARLY)
#else
    prepare_next()
#endif
}

inline copy_part()
{
    copy(ENTRY, plan_descriptor[TOP], plan_part[TOP], VERSION(EXPECTED) + 1, PUT_HEAD)
}

inline finish()
{
    e = 0;
    i = 0;
    pc = DONE
}

#ifdef RECOVER
#define HAS_DEAD_OWNER(descriptor) (owner[descriptor] == 1 && is_dead)
#else
#define HAS_DEAD_OWNER(descriptor) false
#endif
#define IS_FREE(descriptor) (owner[descriptor] == 0 || (i >= DESCRIPTORS && HAS_DEAD_OWNER(descriptor)))

proctype thread(byte me; byte kind; byte changes)
{
    mtype pc = READ_HEAD, then, after_copy;
    byte number = me + 1; /* of the attempt */
    byte e = FROM, i, descriptor, outcome;
    bool is_done;
    short view[2];

    byte depth;
    byte plan_descriptor[DEPTH], plan_sequence[DEPTH], plan_parts[DEPTH], plan_part[DEPTH];
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
           :: IS_PREPARED(head[e])
#else
           :: IS_PREPARED(head[e]) -> then = READ_HEAD; resolve(e, head[e])
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
           :: CELL_VERSION(cell[e * CELLS + i]) == VERSION(view[e]) ->
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
              :: DESCRIPTOR(word) > 0 -> copy(e, DESCRIPTOR(word) - 1, 0, VERSION(word), READ_HEAD)
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

    /* Tries the descriptors, beginning with its own; those of dead owners only in the second round. */
    :: d_step { pc == TAKE && IS_FREE((me + i) % DESCRIPTORS) -> say();
           descriptor = (me + i) % DESCRIPTORS;
           i = 0;
#ifdef BUG_NOT_FINISHED
           pc = BEGIN;
#else
           pc = (owner[descriptor] == 0 -> BEGIN : RECOVER_SEQUENCE);
#endif
           owner[descriptor] = me + 1 }
#ifdef RECOVER
    :: d_step { pc == TAKE && !IS_FREE((me + i) % DESCRIPTORS) && i + 1 < 2 * DESCRIPTORS -> say(); i++ }
    /* All descriptors are taken by running threads: sched_yield(). */
    :: d_step { pc == TAKE && !IS_FREE((me + i) % DESCRIPTORS) && i + 1 == 2 * DESCRIPTORS &&
                (owner[0] == 0 || owner[DESCRIPTORS - 1] == 0 || HAS_DEAD_OWNER(0) || HAS_DEAD_OWNER(DESCRIPTORS - 1)) ->
           say(); i = DESCRIPTORS }
    :: d_step { pc == RECOVER_SEQUENCE -> say();
           if
           :: sequence[descriptor] % 4 != IDLE ->
              depth = 1;
              plan_descriptor[0] = descriptor;
              plan_sequence[0] = sequence[descriptor] / 4;
              plan_parts[0] = part_count[descriptor];
              read_plan_part(0);
              if
              :: part_count[descriptor] > 1 -> read_plan_part(1)
              :: else
              fi;
              then = BEGIN;
              pc = PREPARE_STATE
           :: sequence[descriptor] % 4 == IDLE && sequence[descriptor] > 0 && part_count[descriptor] == 1 ->
              pc = RECOVER_HEAD
           :: else -> pc = BEGIN
           fi }
    :: d_step { pc == RECOVER_HEAD -> say();
           word = head[part_entry[descriptor * 2]];
           if
           :: STATE_OF(word) == LIVE && DESCRIPTOR(word) == descriptor + 1 && SEQUENCE(word) == sequence[descriptor] / 4 ->
              copy(part_entry[descriptor * 2], descriptor, 0, VERSION(word), BEGIN)
           :: else -> pc = BEGIN
           fi;
           word = 0 }
#endif
    :: d_step { pc == BEGIN -> say();
           sequence[descriptor] = (sequence[descriptor] / 4 + 1) * 4 + IDLE;
           assert(sequence[descriptor] / 4 < 8 && number < ATTEMPTS); /* what the model has room for */
           check();
           pc = WRITE_COUNT }

    :: d_step { pc == WRITE_COUNT -> say();
           part_count[descriptor] = PARTS;
           e = 0; /* here: the part */
#ifdef COARSE
           do
           :: e < PARTS ->
              part_entry[descriptor * 2 + e] = ENTRY_OF(e);
              part_expected[descriptor * 2 + e] = view[ENTRY_OF(e)];
              descriptor_cell[(descriptor * 2 + e) * CELLS] = number;
              descriptor_cell[(descriptor * 2 + e) * CELLS + 1] = number;
              e++
           :: else -> break
           od;
           e = 0;
           pc = (kind == BOTH -> OPEN_DESCRIPTOR : CHANGE) }
#else
           pc = WRITE_ENTRY }
    :: d_step { pc == WRITE_ENTRY -> say();
           part_entry[descriptor * 2 + e] = ENTRY_OF(e);
           pc = WRITE_EXPECTED }
    :: d_step { pc == WRITE_EXPECTED -> say();
           part_expected[descriptor * 2 + e] = view[ENTRY_OF(e)];
           pc = WRITE_CELL }
    :: d_step { pc == WRITE_CELL -> say();
           descriptor_cell[(descriptor * 2 + e) * CELLS + i] = number;
           i++;
           if
           :: i < CELLS
           :: i == CELLS && e + 1 < PARTS -> i = 0; e++; pc = WRITE_ENTRY
           :: i == CELLS && e + 1 == PARTS ->
              i = 0;
              e = 0;
              pc = (kind == BOTH -> OPEN_DESCRIPTOR : CHANGE)
           fi }
#endif

    :: d_step { pc == CHANGE -> say();
           if
           :: head[FROM] == view[FROM] ->
              head[FROM] = WORD(VERSION(view[FROM]) + 1, LIVE, descriptor + 1, sequence[descriptor] / 4);
              takes_place(FROM, number);
              happened[number]++;
              assert(happened[number] == 1);
              check();
              is_done = true;
#ifdef BUG_LEAVES_EARLY
              pc = LEAVE
#else
              copy(FROM, descriptor, 0, VERSION(head[FROM]), LEAVE)
#endif
           :: else -> pc = LEAVE
           fi;
           view[FROM] = 0 }

    :: d_step { pc == OPEN_DESCRIPTOR -> say();
           sequence[descriptor] = sequence[descriptor] + OPEN;
           depth = 1;
           plan_descriptor[0] = descriptor;
           plan_sequence[0] = sequence[descriptor] / 4;
           plan_parts[0] = 2;
           read_plan_part(0);
           read_plan_part(1);
           view[0] = 0;
           view[1] = 0;
           then = RESULT;
           pc = PREPARE_STATE }
    :: d_step { pc == RESULT -> say();
           is_done = (sequence[descriptor] % 4 == COMMITTED);
           pc = LEAVE }

    :: d_step { pc == LEAVE -> say();
           owner[descriptor] = 0;
           assert(happened[number] == is_done);
#ifdef BUG_LEAVES_EARLY
           if
           :: is_done && kind != BOTH -> copy(FROM, descriptor, 0, VERSION(head[FROM]), DONE)
           :: else -> pc = DONE
           fi;
#else
           pc = DONE;
#endif
           descriptor = 0;
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

    :: d_step { pc == PLAN_SEQUENCE -> say();
           plan_sequence[TOP] = sequence[plan_descriptor[TOP]] / 4;
           if
           :: sequence[plan_descriptor[TOP]] % 4 == IDLE -> too_late()
           :: else -> pc = PLAN_COUNT
           fi }
    :: d_step { pc == PLAN_COUNT -> say();
           plan_parts[TOP] = part_count[plan_descriptor[TOP]];
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
           plan_entry[PLAN_PART(i)] = part_entry[plan_descriptor[TOP] * 2 + i];
           pc = PLAN_EXPECTED }
    :: d_step { pc == PLAN_EXPECTED -> say();
           plan_expected[PLAN_PART(i)] = part_expected[plan_descriptor[TOP] * 2 + i];
           i++;
           if
           :: i < plan_parts[TOP] -> pc = PLAN_ENTRY
           :: else -> i = 0; pc = PLAN_AGAIN
           fi }
#endif
    :: d_step { pc == PLAN_AGAIN -> say();
           if
           :: sequence[plan_descriptor[TOP]] / 4 == plan_sequence[TOP] &&
              (LISTS(0) || (plan_parts[TOP] > 1 && LISTS(1))) ->
              late_entry = 0;
              late_word = 0;
              pc = PREPARE_STATE
           :: else -> too_late()
           fi }

    :: d_step { pc == PREPARE_STATE -> say();
           if
           :: IS_IN(OPEN) -> pc = PREPARE_LOAD
           :: else -> plan_part[TOP] = 0; pc = STATE
           fi }
    :: d_step { pc == PREPARE_LOAD -> say();
           word = head[ENTRY];
           if
           :: word == PREPARED_HERE -> word = 0; prepared()
#ifdef BUG_NO_VERSION
           :: STATE_OF(word) == LIVE -> pc = PREPARE_SWAP
#else
           :: STATE_OF(word) == STATE_OF(EXPECTED) && VERSION(word) == VERSION(EXPECTED) ->
              pc = PREPARE_SWAP
#endif
           :: IS_PREPARED(word) && word != PREPARED_HERE ->
#ifdef BUG_DEEP_HELP
              i = ENTRY;
              resolve(i, word);
              i = 0;
              word = 0
#else
              pc = PREPARE_AGAIN
#endif
           :: else -> word = 0; plan_part[TOP] = 0; outcome = ABORTED; pc = DECIDE
           fi }
    :: d_step { pc == PREPARE_AGAIN -> say();
           if
           :: IS_IN(OPEN) -> i = ENTRY; resolve(i, word); i = 0
           :: else -> plan_part[TOP] = 0; pc = STATE
           fi;
           word = 0 }
    :: d_step { pc == PREPARE_SWAP -> say();
           if
#ifdef BUG_NO_VERSION
           :: STATE_OF(head[ENTRY]) == LIVE ->
#else
           :: head[ENTRY] == word ->
#endif
              head[ENTRY] = PREPARED_HERE;
              check();
              prepared()
           :: else -> pc = PREPARE_STATE
           fi;
           word = 0 }
#ifdef BUG_ROLLBACK
    :: d_step { pc == COPIED_EARLY -> say(); prepare_next() }
    :: d_step { pc == UNDO -> say();
           if
           :: CELL_VERSION(cell[ENTRY * CELLS + i]) == VERSION(EXPECTED) + 1 ->
              cell[ENTRY * CELLS + i] =
                  CELL(VERSION(EXPECTED), writer_of[ENTRY * 8 + VERSION(EXPECTED)])
           :: else
           fi;
           i++;
           if
           :: i < CELLS
           :: else -> i = 0; pc = ROLL_BACK
           fi }
#endif
    :: d_step { pc == DECIDE -> say();
           if
           :: IS_IN(OPEN) ->
              sequence[plan_descriptor[TOP]] = plan_sequence[TOP] * 4 + outcome;
              if
              :: outcome == COMMITTED ->
                 i = descriptor_cell[plan_descriptor[TOP] * 2 * CELLS]; /* whose */
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
           :: IS_IN(ABORTED) -> pc = ROLL_BACK
#endif
           :: else -> drop_plan(); back()
           fi }

    :: d_step { pc == COPY_SOURCE -> say();
           copy_writer = descriptor_cell[copy_from + i];
           pc = COPY_LOAD }
    :: d_step { pc == COPY_LOAD -> say();
           copy_seen = cell[copy_entry * CELLS + i];
           if
           :: CELL_VERSION(copy_seen) < copy_version -> pc = COPY_SWAP
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
              :: CELL_VERSION(copy_seen) < copy_version
              :: else -> copied()
              fi
           fi }

    :: d_step { pc == PUT_HEAD -> say();
           if
           :: head[ENTRY] == PREPARED_HERE ->
              head[ENTRY] = WORD(VERSION(EXPECTED) + 1, LIVE, 0, 0);
              check()
           :: else
           fi;
           plan_part[TOP] = plan_part[TOP] + 1;
           if
           :: plan_part[TOP] < plan_parts[TOP] -> copy_part()
           :: else -> drop_plan(); back()
           fi }
    :: d_step { pc == ROLL_BACK -> say();
           if
           :: head[ENTRY] == PREPARED_HERE ->
              head[ENTRY] = WORD(VERSION(EXPECTED), WAS(PREPARED_HERE), 0, 0);
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
    :: d_step { pc == ROLL_BACK_LATE -> say();
           if
           :: head[late_entry] == late_word ->
              head[late_entry] = WORD(VERSION(late_word) - 1, WAS(late_word), 0, 0);
              check()
           :: else
           fi;
           late_entry = 0;
           late_word = 0;
           back() }
#ifdef RECOVER
    :: d_step { me == 0 && pc != DONE -> say(); is_dead = true; pc = DONE }
#endif
    :: pc == DONE -> break
    od
}

init
{
    atomic {
#if defined(CASE_SEQUENCES)
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
