/* Timers. The shim keeps their times. A thread of the shim, the ticker, fires those that are due: it sends SIGALRM, or arms the
 * kernel's timer for the present moment, so that a timerfd becomes readable or the program's signal is sent. */
#include "shim.h"
#include <pthread.h>
#include <signal.h>
#include <sys/timerfd.h>

#define TIMERS 64

/* FD is a timerfd, PROCESS one of timer_create. */
enum kind { NONE, FD, PROCESS };
static _Atomic int64_t alarm_at, alarm_every;
static struct timer {
    _Atomic int kind;
    _Atomic uintptr_t id;
    _Atomic int64_t at, every;
} timers[TIMERS];
static _Atomic int ticker_runs;

static int set_process_timer(timer_t timer, const struct itimerspec *new) {
    REAL("timer_settime", int, timer_t, int, const struct itimerspec *, struct itimerspec *);
    return next(timer, 0, new, 0);
}

static int arm_kernel_timer(struct timer *timer, const struct itimerspec *new) {
    uintptr_t id = atomic_load(&timer->id);
    return atomic_load(&timer->kind) == FD ? (int)syscall(SYS_timerfd_settime, (int)id, 0, new, 0)
                                           : set_process_timer((timer_t)id, new);
}

static struct timer *find(enum kind kind, uintptr_t id) {
    for (int i = 0; i < TIMERS; i++)
        if (atomic_load(&timers[i].kind) == (int)kind && atomic_load(&timers[i].id) == id) return &timers[i];
    return 0;
}

/* Return the timer with this id, or a free one; 0 when there is none. A timerfd that is not set is free: the shim does not
 * see it closed. */
static struct timer *find_or_claim(enum kind kind, uintptr_t id) {
    struct timer *found = find(kind, id);
    for (int i = 0; i < TIMERS && !found; i++) {
        int old = atomic_load(&timers[i].kind);
        if (old == NONE || (old == FD && !atomic_load(&timers[i].at))) found = &timers[i];
    }
    if (found) {
        atomic_store(&found->kind, kind);
        atomic_store(&found->id, id);
    }
    return found;
}

/* Return when the next timer is due; NEVER when none is set. */
static int64_t earliest_timer(void) {
    int64_t found = atomic_load(&alarm_at);
    if (!found) found = NEVER;
    for (int i = 0; i < TIMERS; i++) {
        int64_t at = atomic_load(&timers[i].at);
        if (at && at < found) found = at;
    }
    return found;
}

/* Fire the timers that are due, and set those that repeat anew; return whether there were any. */
static int fire_due_timers(void) {
    int64_t at = atomic_load(&alarm_at), moment = now();
    int fired = 0;
    if (at && at <= moment) {
        int64_t every = atomic_load(&alarm_every);
        atomic_store(&alarm_at, every ? moment + every : 0);
        kill(getpid(), SIGALRM);
        fired = 1;
    }
    for (int i = 0; i < TIMERS; i++) {
        at = atomic_load(&timers[i].at);
        if (!at || at > moment) continue;
        int64_t every = atomic_load(&timers[i].every);
        atomic_store(&timers[i].at, every ? moment + every : 0);
        struct itimerspec at_once = {.it_value = {.tv_nsec = 1}};
        arm_kernel_timer(&timers[i], &at_once);
        fired = 1;
    }
    return fired;
}

/* The ticker: waits like any thread of the program, with the next timer as its deadline. */
static void *run_ticker(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    for (;;) {
        uint64_t epoch = atomic_load(&page->epoch);
        int fired = fire_due_timers();
        begin_wait(earliest_timer());
        struct timespec slice = timespec_of(SLICE);
        syscall(SYS_nanosleep, &slice, 0);
        if (fired) count_wakeup();
        else set_seen(epoch);
    }
    return unused;
}

static void start_ticker(void) {
    int no = 0;
    pthread_t thread;
    if (atomic_compare_exchange_strong(&ticker_runs, &no, 1) && !pthread_create(&thread, 0, run_ticker, 0))
        pthread_detach(thread);
}

void reset_timers(void) {
    atomic_store(&ticker_runs, 0);
    atomic_store(&alarm_at, 0);
    for (int i = 0; i < TIMERS; i++) {
        atomic_store(&timers[i].at, 0);
        if (atomic_load(&timers[i].kind) == PROCESS) atomic_store(&timers[i].kind, NONE);
    }
}

/* Return the time until a timer is due, at least 1 ns as 0 would mean that it is not set; 0 when it is not set. */
static int64_t time_left(int64_t at) { return !at ? 0 : at - now() > 1 ? at - now() : 1; }

unsigned alarm(unsigned seconds) {
    int64_t left = time_left(atomic_load(&alarm_at));
    atomic_store(&alarm_every, 0);
    atomic_store(&alarm_at, seconds ? now() + seconds * SECOND : 0);
    if (seconds) start_ticker();
    return (unsigned)((left + SECOND - 1) / SECOND);
}

int getitimer(__itimer_which_t which, struct itimerval *old) {
    if (which != ITIMER_REAL) return (int)syscall(SYS_getitimer, which, old);
    old->it_value = timeval_of(time_left(atomic_load(&alarm_at)));
    old->it_interval = timeval_of(atomic_load(&alarm_every));
    return 0;
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict new, struct itimerval *restrict old) {
    if (which != ITIMER_REAL) return (int)syscall(SYS_setitimer, which, new, old);
    if (old) getitimer(which, old);
    int64_t first = new ? timeval_ns(new->it_value) : 0;
    atomic_store(&alarm_every, new ? timeval_ns(new->it_interval) : 0);
    atomic_store(&alarm_at, first ? now() + first : 0);
    if (first) start_ticker();
    return 0;
}

static int get_timer(struct timer *timer, struct itimerspec *old) {
    old->it_value = timespec_of(time_left(atomic_load(&timer->at)));
    old->it_interval = timespec_of(atomic_load(&timer->every));
    return 0;
}

static int set_timer(struct timer *timer, int absolute, const struct itimerspec *new) {
    struct itimerspec none = {0};
    if (!timer) { errno = ENOMEM; return -1; }
    atomic_store(&timer->at, 0);
    if (arm_kernel_timer(timer, &none)) return -1;
    int64_t at = timespec_ns(&new->it_value);
    if (at && absolute) { /* the timer's clock is not known: take the one whose time is nearer */
        int64_t wall = now_of(CLOCK_REALTIME), mono = now();
        at = llabs(at - wall) < llabs(at - mono) ? at - wall + mono : at;
        if (at < 1) at = 1;
    } else if (at) {
        at += now();
    }
    atomic_store(&timer->every, timespec_ns(&new->it_interval));
    atomic_store(&timer->at, at);
    if (at) start_ticker();
    return 0;
}

int timerfd_gettime(int fd, struct itimerspec *old) {
    struct timer *found = find(FD, (uintptr_t)fd);
    return found ? get_timer(found, old) : (int)syscall(SYS_timerfd_gettime, fd, old);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old) {
    if (old && timerfd_gettime(fd, old)) return -1;
    return set_timer(find_or_claim(FD, (uintptr_t)fd), flags & TFD_TIMER_ABSTIME, new);
}

int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer) {
    REAL("timer_create", int, clockid_t, struct sigevent *, timer_t *);
    int result = next(clock, event, timer);
    if (!result && is_shifted(clock) && !find_or_claim(PROCESS, (uintptr_t)*timer)) { errno = EAGAIN; return -1; }
    return result;
}

int timer_delete(timer_t timer) {
    REAL("timer_delete", int, timer_t);
    struct timer *found = find(PROCESS, (uintptr_t)timer);
    if (found) {
        atomic_store(&found->at, 0);
        atomic_store(&found->kind, NONE);
    }
    return next(timer);
}

int timer_gettime(timer_t timer, struct itimerspec *old) {
    REAL("timer_gettime", int, timer_t, struct itimerspec *);
    struct timer *found = find(PROCESS, (uintptr_t)timer);
    return found ? get_timer(found, old) : next(timer, old);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict new, struct itimerspec *restrict old) {
    REAL("timer_settime", int, timer_t, int, const struct itimerspec *, struct itimerspec *);
    struct timer *found = find(PROCESS, (uintptr_t)timer);
    if (!found) return next(timer, flags, new, old); /* it measures processor time */
    if (old) get_timer(found, old);
    return set_timer(found, flags & TIMER_ABSTIME, new);
}
