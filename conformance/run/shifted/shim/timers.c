/* A thread of our own lets timers ring: another may be amidst any wait, or any call. */
#include "shim.h"
#include <pthread.h>
#include <signal.h>
#include <sys/timerfd.h>

#define TIMERS 64

/* A timer is rung by the kernel's own, set to the present moment: by a timerfd, or by one of timer_create. */
enum kind { NONE, OF_FD, OF_PROCESS };
static _Atomic int64_t alarm_at, alarm_every;
static struct timer {
    _Atomic int kind;
    _Atomic uintptr_t id;
    _Atomic int64_t at, every;
} timers[TIMERS];
static _Atomic int ticking;

static int set_process_timer(timer_t timer, const struct itimerspec *new) {
    REAL("timer_settime", int, timer_t, int, const struct itimerspec *, struct itimerspec *);
    return next(timer, 0, new, 0);
}

static int set_real(struct timer *timer, const struct itimerspec *new) {
    uintptr_t id = atomic_load(&timer->id);
    return atomic_load(&timer->kind) == OF_FD ? (int)syscall(SYS_timerfd_settime, (int)id, 0, new, 0)
                                              : set_process_timer((timer_t)id, new);
}

static struct timer *find(enum kind kind, uintptr_t id) {
    for (int i = 0; i < TIMERS; i++)
        if (atomic_load(&timers[i].kind) == (int)kind && atomic_load(&timers[i].id) == id) return &timers[i];
    return 0;
}

/* The timer of that name, or one that nobody has set; a timerfd that was closed is not told to us. */
static struct timer *find_or_take(enum kind kind, uintptr_t id) {
    struct timer *found = find(kind, id);
    for (int i = 0; i < TIMERS && !found; i++) {
        int old = atomic_load(&timers[i].kind);
        if (old == NONE || (old == OF_FD && !atomic_load(&timers[i].at))) found = &timers[i];
    }
    if (found) {
        atomic_store(&found->kind, kind);
        atomic_store(&found->id, id);
    }
    return found;
}

static int64_t earliest(void) {
    int64_t found = atomic_load(&alarm_at);
    if (!found) found = NEVER;
    for (int i = 0; i < TIMERS; i++) {
        int64_t at = atomic_load(&timers[i].at);
        if (at && at < found) found = at;
    }
    return found;
}

static int ring(void) {
    int64_t at = atomic_load(&alarm_at), moment = now();
    int rang = 0;
    if (at && at <= moment) {
        int64_t every = atomic_load(&alarm_every);
        atomic_store(&alarm_at, every ? moment + every : 0);
        kill(getpid(), SIGALRM);
        rang = 1;
    }
    for (int i = 0; i < TIMERS; i++) {
        at = atomic_load(&timers[i].at);
        if (!at || at > moment) continue;
        int64_t every = atomic_load(&timers[i].every);
        atomic_store(&timers[i].at, every ? moment + every : 0);
        struct itimerspec at_once = {.it_value = {.tv_nsec = 1}};
        set_real(&timers[i], &at_once);
        rang = 1;
    }
    return rang;
}

static void *tick(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    for (;;) {
        uint64_t epoch = atomic_load(&page->epoch);
        int rang = ring();
        waits_until(earliest());
        struct timespec slice = timespec_of(SLICE);
        syscall(SYS_nanosleep, &slice, 0);
        if (rang) was_woken();
        else has_seen(epoch);
    }
    return nothing;
}

static void begin_ticking(void) {
    int no = 0;
    pthread_t thread;
    if (atomic_compare_exchange_strong(&ticking, &no, 1) && !pthread_create(&thread, 0, tick, 0))
        pthread_detach(thread);
}

void forget_timers(void) {
    atomic_store(&ticking, 0);
    atomic_store(&alarm_at, 0);
    for (int i = 0; i < TIMERS; i++) {
        atomic_store(&timers[i].at, 0);
        if (atomic_load(&timers[i].kind) == OF_PROCESS) atomic_store(&timers[i].kind, NONE);
    }
}

static int64_t left_of(int64_t at) { return !at ? 0 : at - now() > 1 ? at - now() : 1; }

unsigned alarm(unsigned seconds) {
    int64_t left = left_of(atomic_load(&alarm_at));
    atomic_store(&alarm_every, 0);
    atomic_store(&alarm_at, seconds ? now() + seconds * SECOND : 0);
    if (seconds) begin_ticking();
    return (unsigned)((left + SECOND - 1) / SECOND);
}

int getitimer(__itimer_which_t which, struct itimerval *old) {
    if (which != ITIMER_REAL) return (int)syscall(SYS_getitimer, which, old);
    old->it_value = timeval_of(left_of(atomic_load(&alarm_at)));
    old->it_interval = timeval_of(atomic_load(&alarm_every));
    return 0;
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict new, struct itimerval *restrict old) {
    if (which != ITIMER_REAL) return (int)syscall(SYS_setitimer, which, new, old);
    if (old) getitimer(which, old);
    int64_t first = new ? of_timeval(new->it_value) : 0;
    atomic_store(&alarm_every, new ? of_timeval(new->it_interval) : 0);
    atomic_store(&alarm_at, first ? now() + first : 0);
    if (first) begin_ticking();
    return 0;
}

static int told(struct timer *timer, struct itimerspec *old) {
    old->it_value = timespec_of(left_of(atomic_load(&timer->at)));
    old->it_interval = timespec_of(atomic_load(&timer->every));
    return 0;
}

static int set(struct timer *timer, int absolute, const struct itimerspec *new) {
    struct itimerspec none = {0};
    if (!timer) { errno = ENOMEM; return -1; }
    atomic_store(&timer->at, 0);
    if (set_real(timer, &none)) return -1;
    int64_t at = nanoseconds(&new->it_value);
    if (at && absolute) { /* of the wall clock, when it is nearer to that */
        int64_t wall = now_of(CLOCK_REALTIME), mono = now();
        at = llabs(at - wall) < llabs(at - mono) ? at - wall + mono : at;
        if (at < 1) at = 1;
    } else if (at) {
        at += now();
    }
    atomic_store(&timer->every, nanoseconds(&new->it_interval));
    atomic_store(&timer->at, at);
    if (at) begin_ticking();
    return 0;
}

int timerfd_gettime(int fd, struct itimerspec *old) {
    struct timer *found = find(OF_FD, (uintptr_t)fd);
    return found ? told(found, old) : (int)syscall(SYS_timerfd_gettime, fd, old);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old) {
    if (old && timerfd_gettime(fd, old)) return -1;
    return set(find_or_take(OF_FD, (uintptr_t)fd), flags & TFD_TIMER_ABSTIME, new);
}

int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer) {
    REAL("timer_create", int, clockid_t, struct sigevent *, timer_t *);
    int result = next(clock, event, timer);
    if (!result && moves(clock) && !find_or_take(OF_PROCESS, (uintptr_t)*timer)) { errno = EAGAIN; return -1; }
    return result;
}

int timer_delete(timer_t timer) {
    REAL("timer_delete", int, timer_t);
    struct timer *found = find(OF_PROCESS, (uintptr_t)timer);
    if (found) {
        atomic_store(&found->at, 0);
        atomic_store(&found->kind, NONE);
    }
    return next(timer);
}

int timer_gettime(timer_t timer, struct itimerspec *old) {
    REAL("timer_gettime", int, timer_t, struct itimerspec *);
    struct timer *found = find(OF_PROCESS, (uintptr_t)timer);
    return found ? told(found, old) : next(timer, old);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict new, struct itimerspec *restrict old) {
    REAL("timer_settime", int, timer_t, int, const struct itimerspec *, struct itimerspec *);
    struct timer *found = find(OF_PROCESS, (uintptr_t)timer);
    if (!found) return next(timer, flags, new, old); /* of a clock of the processor's time */
    if (old) told(found, old);
    return set(found, flags & TIMER_ABSTIME, new);
}
