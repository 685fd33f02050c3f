/* A clock for programs that nobody here wrote, preloaded (LD_PRELOAD) with CONFORMANCE_CLOCK naming the page.
 *
 * The page holds an offset that is added to what every clock says. Each wait with or without a time limit is cut into
 * slices of real time, so that a sleeper notices a jump of the clock; and each waiting thread says in a slot of the page
 * until when it waits, and which epoch of the harness it has seen with nothing to do. So the harness knows when nothing
 * is left to be done before the earliest deadline, and can jump there.
 *
 *   page.c     the page, and the threads' slots in it
 *   clocks.c   clock_gettime, gettimeofday, time, timespec_get
 *   files.c    file times: stat, fstat, lstat, fstatat, statx; utime, utimes, futimes, lutimes, utimensat, futimens
 *   timers.c   alarm, setitimer, getitimer, timerfd, timer_create
 *   waits.c    nanosleep, clock_nanosleep, usleep, sleep, sigtimedwait, poll, ppoll, select, pselect, epoll
 *   threads.c  sem_timedwait, sem_clockwait, pthread_cond_timedwait, pthread_cond_clockwait
 *   unmoved.c  what is not moved, and told to the harness when a program asks for it: timeouts of the kernel's own
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

#define SLICE 2000000L
#define SLOTS 256
#define JUMPS 65536
#define SECOND 1000000000L
#define NEVER INT64_MAX

struct slot { /* as in page.py, like all below */
    _Atomic int32_t tid;
    _Atomic int32_t waits;
    _Atomic uint64_t seen;
    _Atomic int64_t deadline;
    _Atomic uint64_t woken;
};
struct jump { /* since this moment of the kernel's own clock for files the offset has been that */
    _Atomic int64_t at, offset;
};
struct page {
    _Atomic int64_t offset;
    _Atomic uint64_t epoch;
    _Atomic uint64_t unmoved;
    _Atomic uint64_t jumped;
    int64_t spare[4];
    struct slot slots[SLOTS];
    struct jump jumps[JUMPS];
};

/* The next definition of a function of the C library, looked up once. */
#define REAL(name, result, ...) \
    static result (*next)(__VA_ARGS__); \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, name)

#pragma GCC visibility push(hidden)

extern struct page *page;

/* page.c: of the thread that calls */
void waits_until(int64_t deadline);
void was_woken(void);
void waits_no_more(void);
void has_seen(uint64_t epoch);

/* clocks.c: nanoseconds; `now` is the shifted monotonic clock */
int64_t real_ns(clockid_t clock);
int64_t now_of(clockid_t clock);
int64_t now(void);
int64_t after(int64_t ns);
int moves(clockid_t clock);

/* timers.c */
void forget_timers(void);

#pragma GCC visibility pop

static inline int64_t nanoseconds(const struct timespec *at) { return at->tv_sec * SECOND + at->tv_nsec; }

static inline struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static inline int64_t of_timeval(struct timeval at) { return at.tv_sec * SECOND + at.tv_usec * 1000; }

static inline struct timeval timeval_of(int64_t ns) {
    return (struct timeval){.tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000};
}

static inline int64_t of_timespec(const struct timespec *limit) { return limit ? after(nanoseconds(limit)) : NEVER; }

static inline int64_t slice_until(int64_t deadline) {
    int64_t left = deadline - now();
    return left <= 0 ? 0 : left < SLICE ? left : SLICE;
}

/* Repeat a call with the time that it may take, until it tells something or the deadline has come. */
#define SLICED(until, call, nothing) \
    do { \
        waits_until(until); \
        for (;;) { \
            uint64_t epoch = atomic_load(&page->epoch); \
            int64_t slice = slice_until(until); \
            struct timespec limit = timespec_of(slice); \
            (void)limit; \
            result = call; \
            if (!(nothing) || !slice) break; \
            has_seen(epoch); \
        } \
        waits_no_more(); \
    } while (0)

#endif
