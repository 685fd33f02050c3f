/* Shifts the clock of a foreign program into which it is preloaded (LD_PRELOAD). CONFORMANCE_CLOCK names the shared page.
 *
 * Theory of operation. The functions of the C library below, which read a clock, or wait with or without a limit, are replaced.
 * Functions that read a clock add the offset of the page. The harness increases the offset when it jumps, so a wait
 * cannot be left to the kernel: it is cut into slices of SLICE ns of real time (SLICED), and after each slice the shifted
 * clock is compared with the deadline. So a sleeper notices a jump.
 *
 * The harness jumps only when no thread has anything to do. It begins an epoch by increasing a number in the page. A waiting
 * thread reads that number, lets the call look whether there is something to return, and if not writes the number to its slot
 * in the page: it has seen the epoch with nothing to do. The slot has its deadline too, so the harness knows where to jump.
 *
 *   page.c       the page, and the threads' slots in it
 *   clocks.c     clock_gettime, gettimeofday, time, timespec_get
 *   files.c      file times: stat, fstat, lstat, fstatat, statx; utime, utimes, futimes, lutimes, utimensat, futimens
 *   timers.c     alarm, setitimer, getitimer, timerfd, timer_create
 *   waits.c      nanosleep, clock_nanosleep, usleep, sleep, thrd_sleep, sigtimedwait, poll, ppoll, select, pselect, epoll
 *   threads.c    sem_timedwait, sem_clockwait, pthread_cond_timedwait, pthread_cond_clockwait, cnd_timedwait
 *   unshifted.c  time limits that cannot be shifted: the program's use of one is reported to the harness
 *
 * All times are int64_t in nanoseconds. A deadline is a time of the shifted monotonic clock, or NEVER.
 */
#ifndef SHIM_H
#define SHIM_H
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SLICE 2000000L /* ns of real time */
#define SLOTS 256
#define JUMPS 65536
#define SECOND 1000000000L
#define NEVER INT64_MAX

struct slot { /* see Slot in shared_page.py, which has the same layout as all below */
    _Atomic int32_t tid;
    _Atomic int32_t waits;
    _Atomic uint64_t seen;
    _Atomic int64_t deadline;
    _Atomic uint64_t woken;
};
struct jump { /* `offset` has been in force since the time `at` of the clock with which the kernel stamps files */
    _Atomic int64_t at, offset;
};
struct page {
    _Atomic int64_t offset;
    _Atomic uint64_t epoch;
    _Atomic uint64_t unshifted;
    _Atomic uint64_t jump_count;
    int64_t spare[4];
    struct slot slots[SLOTS];
    struct jump jumps[JUMPS];
};

/* Declare `next`, the function of the C library that the shim's function of the same name replaces; look it up once. */
#define REAL(name, result, ...) \
    static result (*next)(__VA_ARGS__); \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, name)

#pragma GCC visibility push(hidden)

extern struct page *page;

/* page.c: write the slot of the calling thread */
void begin_wait(int64_t deadline);
void count_wakeup(void);
void end_wait(void);
void set_seen(uint64_t epoch);

/* clocks.c: real_ns is the machine's time, now_of the shifted time of a clock, now that of the monotonic clock */
int64_t real_ns(clockid_t clock);
int64_t now_of(clockid_t clock);
int64_t now(void);
int64_t deadline_after(int64_t ns);
int is_shifted(clockid_t clock);

/* timers.c */
void reset_timers(void);

#pragma GCC visibility pop

static inline int64_t timespec_ns(const struct timespec *at) { return at->tv_sec * SECOND + at->tv_nsec; }

static inline struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static inline int64_t timeval_ns(struct timeval at) { return at.tv_sec * SECOND + at.tv_usec * 1000; }

static inline struct timeval timeval_of(int64_t ns) {
    return (struct timeval){.tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000};
}

/* Return the deadline of a relative time limit; without one (a null pointer) NEVER. */
static inline int64_t deadline_of(const struct timespec *limit) { return limit ? deadline_after(timespec_ns(limit)) : NEVER; }

/* Return the length of the next slice of a wait; 0 when the deadline has passed. */
static inline int64_t slice_before(int64_t deadline) {
    int64_t left = deadline - now();
    return left <= 0 ? 0 : left < SLICE ? left : SLICE;
}

/* Repeat `call`, which sets `result` and may wait for the time `limit`, until the condition `timed_out` is false or the deadline
 * `until` has passed. */
#define SLICED(until, call, timed_out) \
    do { \
        begin_wait(until); \
        for (;;) { \
            uint64_t epoch = atomic_load(&page->epoch); \
            int64_t slice = slice_before(until); \
            struct timespec limit = timespec_of(slice); \
            (void)limit; \
            result = call; \
            if (!(timed_out) || !slice) break; \
            set_seen(epoch); \
        } \
        end_wait(); \
    } while (0)

#endif
