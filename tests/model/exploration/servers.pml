/* Mailbox servers of Exchange 2013 and later that obey the documents: a second enumerator of the states of
 * conformance/model/exploration, written from the same rows of the catalogue over the state vector of state.py, and sharing no code
 * with it. Only the number of reachable states is compared.
 *
 * Each process has one control state and is made of atomic steps, so that a state of Spin is a state of the model. Which message,
 * custody and server a process is about follows from its number.
 *
 * Defined on the command line: SERVERS, MESSAGES, CRASHES, DATABASES, REPLIES, MANDATORY (0 or 1), MAILBOX0 and MAILBOX1 (whether a
 * message goes to a mailbox), SLOTS (how many custodies of a message there may be; more fail an assertion).
 */

/* Sender: KEEPS 0, WAITS 1, KEEPS_AGAIN 2, WAITS_AGAIN 3 */
#define LEFT 4
#define ANSWERED 5

/* Copy */
#define GONE 0
#define RECEIVED 1
#define QUEUED 2
#define ALONE 3

/* Held */
#define NONE 0
#define HELD 1
#define UNNOTED 2
#define DISCARDABLE 3
#define ORPHANED 4

/* A custody is one number: copy, primary, and what each server holds. Zero is an empty slot. */
#define COPY(c) ((c) & 3)
#define PRIMARY(c) (((c) >> 2) & 3)
#define WHAT(c, h) (((c) >> (4 + 3 * (h))) & 7)
#define WITH_COPY(c, v) (((c) & ~3) | (v))
#define WITH_WHAT(c, h, v) (((c) & ~(7 << (4 + 3 * (h)))) | ((v) << (4 + 3 * (h))))
#define NEW(p, v) ((v) | ((p) << 2))
#define AT(m, i) custody[(m) * SLOTS + (i)]
#define IS_MAILBOX(m) ((m) == 0 && MAILBOX0 || (m) == 1 && MAILBOX1)

#define SHADOWED(c) (WHAT(c, 0) == HELD || WHAT(c, 1) == HELD || (SERVERS == 3 && WHAT(c, 2) == HELD))
#define FAILED(c, h) (PRIMARY(c) == (h) || !up[h] || WHAT(c, h) == UNNOTED)
#define ALL_FAILED(c) (FAILED(c, 0) && FAILED(c, 1) && (SERVERS < 3 || FAILED(c, SERVERS - 1)))

bool up[SERVERS] = true;
byte crashes = CRASHES;
byte databases = DATABASES;
byte replies = REPLIES;
byte sender[MESSAGES];
byte arrived[MESSAGES];
bool tracked[MESSAGES];
short custody[MESSAGES * SLOTS];

hidden byte x;
hidden byte y;
hidden short z;
hidden byte n;

/* Sort the custodies of a message, and drop the empty ones: they are a multiset. */
inline settle(m) {
    x = 0;
    do
    :: x < SLOTS -> if
        :: (AT(m, x) & ~12) == 0 -> AT(m, x) = 0
        :: else
        fi; x++
    :: else -> break
    od;
    x = 0;
    do
    :: x < SLOTS ->
        y = 0;
        do
        :: y + 1 < SLOTS ->
            if
            :: AT(m, y) < AT(m, y + 1) -> z = AT(m, y); AT(m, y) = AT(m, y + 1); AT(m, y + 1) = z
            :: else
            fi; y++
        :: else -> break
        od; x++
    :: else -> break
    od;
    x = 0; y = 0; z = 0
}

/* Put a custody into the last slot, which must be empty. */
inline add(m, c) {
    assert(AT(m, SLOTS - 1) == 0);
    AT(m, SLOTS - 1) = c;
    settle(m)
}

/* Not followed any further. */
inline forget(m) {
    x = 0;
    do
    :: x < SLOTS -> AT(m, x) = 0; x++
    :: else -> break
    od;
    x = 0;
    tracked[m] = false
}

inline no_answer(m) {
    sender[m] = sender[m] + 1;
    if
    :: sender[m] == LEFT -> forget(m); arrived[m] = 0
    :: else
    fi
}

/* The destination takes a transmission. */
inline take(m) {
    if
    :: tracked[m]
    :: !tracked[m] && arrived[m] == 0 -> arrived[m] = 1; tracked[m] = IS_MAILBOX(m)
    :: else -> arrived[m] = 2; sender[m] = ANSWERED; forget(m)
    fi
}

/* The primary of custody i has handed the message on. */
inline hand_on(m, i, unnoted) {
    take(m);
    if
    :: arrived[m] < 2 ->
        AT(m, i) = WITH_COPY(AT(m, i), GONE);
        n = 0;
        do
        :: n < SERVERS ->
            if
            :: WHAT(AT(m, i), n) == HELD -> AT(m, i) = WITH_WHAT(AT(m, i), n, DISCARDABLE)
            :: WHAT(AT(m, i), n) == UNNOTED -> AT(m, i) = WITH_WHAT(AT(m, i), n, unnoted)
            :: else
            fi; n++
        :: else -> break
        od;
        n = 0;
        settle(m)
    :: else
    fi
}

/* One process for each message and each server that it may be sent to. */
active [MESSAGES * SERVERS] proctype Sending() {
    byte m = _pid / SERVERS;
    byte s = _pid % SERVERS;
    do
    :: d_step { (sender[m] == 0 || sender[m] == 2) && up[s] -> sender[m] = sender[m] + 1; add(m, NEW(s, RECEIVED)) }
    :: d_step { tracked[m] -> tracked[m] = false }
    od
}

#define BEFORE_PRIMARIES (MESSAGES * SERVERS)
#define C AT(m, i)

/* One process for each message and each slot: what the primary of the custody does. */
active [MESSAGES * SLOTS] proctype Primary() {
    byte m = (_pid - BEFORE_PRIMARIES) / SLOTS;
    byte i = (_pid - BEFORE_PRIMARIES) % SLOTS;
    do
    :: d_step { COPY(C) == RECEIVED && (SHADOWED(C) || ALL_FAILED(C) && !MANDATORY) ->
        C = WITH_COPY(C, QUEUED); sender[m] = ANSWERED; settle(m) }
    :: d_step { replies > 0 && COPY(C) == RECEIVED && (SHADOWED(C) || ALL_FAILED(C) && !MANDATORY) ->
        replies--; C = WITH_COPY(C, QUEUED); settle(m); no_answer(m) }
    :: d_step { COPY(C) == RECEIVED && !SHADOWED(C) && ALL_FAILED(C) && MANDATORY ->
        C = WITH_COPY(C, GONE); sender[m] = sender[m] - 1; settle(m) }
    :: d_step { (COPY(C) == QUEUED || COPY(C) == ALONE) && up[PRIMARY(C)] -> hand_on(m, i, UNNOTED) }
    :: d_step { (COPY(C) == QUEUED || COPY(C) == ALONE) && up[PRIMARY(C)] -> hand_on(m, i, DISCARDABLE) }
    :: d_step { replies > 0 && (COPY(C) == QUEUED || COPY(C) == ALONE) && up[PRIMARY(C)] -> replies--; take(m) }
    od
}

#define BEFORE_SHADOWS (BEFORE_PRIMARIES + MESSAGES * SLOTS)
#define MINE WHAT(C, h)
#define OTHER (C != 0 && PRIMARY(C) != h)
#define LINKED (OTHER && up[h] && up[PRIMARY(C)])

/* One process for each message, slot and server: what passes between the primary of the custody and this other server. */
active [MESSAGES * SLOTS * SERVERS] proctype Shadow() {
    byte m = (_pid - BEFORE_SHADOWS) / (SLOTS * SERVERS);
    byte i = ((_pid - BEFORE_SHADOWS) / SERVERS) % SLOTS;
    byte h = (_pid - BEFORE_SHADOWS) % SERVERS;
    do
    :: d_step { LINKED && MINE == NONE && COPY(C) == RECEIVED && !SHADOWED(C) -> C = WITH_WHAT(C, h, HELD); settle(m) }
    :: d_step { replies > 0 && LINKED && MINE == NONE && COPY(C) == RECEIVED && !SHADOWED(C) ->
        replies--; C = WITH_WHAT(C, h, UNNOTED); settle(m) }
    :: d_step { LINKED && MINE == NONE && COPY(C) == ALONE -> C = WITH_COPY(WITH_WHAT(C, h, HELD), QUEUED); settle(m) }
    :: d_step { replies > 0 && LINKED && MINE == NONE && COPY(C) == ALONE ->
        replies--; C = WITH_WHAT(C, h, UNNOTED); settle(m) }
    :: d_step { LINKED && MINE == DISCARDABLE -> C = WITH_WHAT(C, h, NONE); settle(m) }
    :: d_step { replies > 0 && LINKED && MINE == DISCARDABLE -> replies--; C = WITH_WHAT(C, h, UNNOTED); settle(m) }
    :: d_step { LINKED && MINE == UNNOTED && COPY(C) == GONE -> C = WITH_WHAT(C, h, NONE); settle(m) }
    :: d_step { LINKED && MINE == ORPHANED -> C = WITH_WHAT(C, h, NONE); add(m, NEW(h, ALONE)) }
    :: d_step { OTHER && up[h] && !up[PRIMARY(C)] && MINE != NONE -> C = WITH_WHAT(C, h, NONE); add(m, NEW(h, ALONE)) }
    :: d_step { OTHER && !up[h] && up[PRIMARY(C)] && MINE == DISCARDABLE -> C = WITH_WHAT(C, h, UNNOTED); settle(m) }
    od
}

/* The sessions of a server that crashes end; what it was receiving may be on its disk or not. */
inline break_off(m, s, kept) {
    n = 0;
    do
    :: n < SLOTS && !(COPY(AT(m, n)) == RECEIVED && PRIMARY(AT(m, n)) == s) -> n++
    :: else -> break
    od;
    if
    :: n < SLOTS ->
        if
        :: kept -> AT(m, n) = WITH_COPY(AT(m, n), QUEUED)
        :: else ->
            AT(m, n) = WITH_COPY(AT(m, n), GONE);
            x = 0;
            do
            :: x < SERVERS ->
                if
                :: WHAT(AT(m, n), x) == HELD -> AT(m, n) = WITH_WHAT(AT(m, n), x, UNNOTED)
                :: else
                fi; x++
            :: else -> break
            od
        fi;
        settle(m);
        no_answer(m)
    :: else
    fi;
    n = 0; x = 0
}

inline crash(s, kept0, kept1) {
    crashes--;
    up[s] = false;
    break_off(0, s, kept0);
    if
    :: MESSAGES == 2 -> break_off(MESSAGES - 1, s, kept1)
    :: else
    fi
}

inline lose(m, s) {
    n = 0;
    do
    :: n < SLOTS ->
        if
        :: AT(m, n) != 0 && PRIMARY(AT(m, n)) == s ->
            AT(m, n) = WITH_COPY(AT(m, n), GONE);
            x = 0;
            do
            :: x < SERVERS ->
                if
                :: WHAT(AT(m, n), x) != NONE -> AT(m, n) = WITH_WHAT(AT(m, n), x, ORPHANED)
                :: else
                fi; x++
            :: else -> break
            od
        :: AT(m, n) != 0 && PRIMARY(AT(m, n)) != s -> AT(m, n) = WITH_WHAT(AT(m, n), s, NONE)
        :: else
        fi; n++
    :: else -> break
    od;
    n = 0; x = 0;
    settle(m)
}

#define BEFORE_SERVERS (BEFORE_SHADOWS + MESSAGES * SLOTS * SERVERS)

active [SERVERS] proctype Server() {
    byte s = _pid - BEFORE_SERVERS;
    do
    :: d_step { crashes > 0 && up[s] -> crash(s, 0, 0) }
    :: d_step { crashes > 0 && up[s] -> crash(s, 0, 1) }
    :: d_step { crashes > 0 && up[s] -> crash(s, 1, 0) }
    :: d_step { crashes > 0 && up[s] -> crash(s, 1, 1) }
    :: d_step { !up[s] -> up[s] = true }
    :: d_step { databases > 0 && !up[s] ->
        databases--; lose(0, s);
        if
        :: MESSAGES == 2 -> lose(MESSAGES - 1, s)
        :: else
        fi }
    od
}
