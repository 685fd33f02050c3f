/* A clock for programs that nobody here wrote, preloaded (LD_PRELOAD) with CONFORMANCE_CLOCK naming the page.
 *
 * The page holds an offset that is added to what every clock says. Each wait with or without a time limit is cut into
 * slices of real time, so that a sleeper notices a jump of the clock; and each waiting thread says in a slot of the page
 * until when it waits, and which epoch of the harness it has seen with nothing to do. So the harness knows when nothing
 * is left to be done before the earliest deadline, and can jump there.
 *
 * Shifted: clock_gettime, gettimeofday, time, timespec_get; nanosleep, clock_nanosleep, usleep, sleep; poll, ppoll,
 * select, pselect, epoll_wait, epoll_pwait, epoll_pwait2; sem_timedwait, sem_clockwait, pthread_cond_timedwait,
 * pthread_cond_clockwait, sigtimedwait; alarm, setitimer, getitimer, timerfd. Not shifted: socket timeouts of the kernel
 * (SO_RCVTIMEO, TCP's own), timer_create, and file times: the kernel stamps files with the machine's time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SLICE 2000000L
#define SLOTS 256
#define TIMERS 64
#define SECOND 1000000000L
#define NEVER INT64_MAX

struct slot { /* as in page.py */
    _Atomic int32_t tid;
    _Atomic int32_t waits;
    _Atomic uint64_t seen;
    _Atomic int64_t deadline;
    int64_t spare;
};
struct page {
    _Atomic int64_t offset;
    _Atomic uint64_t epoch;
    int64_t spare[6];
    struct slot slots[SLOTS];
};

static struct page alone;
static struct page *page = &alone;
static int (*real_gettime)(clockid_t, struct timespec *);
static pthread_key_t leaving;
static __thread struct slot *mine;

/* the page, and this thread's slot */

static void release(void *slot) { atomic_store(&((struct slot *)slot)->tid, 0); }

static void forked(void);

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CONFORMANCE_CLOCK");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *shared = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) page = shared;
        close(file);
    }
    *(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    pthread_key_create(&leaving, release);
    pthread_atfork(0, 0, forked);
}

/* Take the first slot of nobody, or of somebody who was killed and could not leave it. */
static struct slot *claim(int32_t tid, int of_the_dead) {
    for (int i = 0; i < SLOTS; i++) {
        int32_t whose = atomic_load(&page->slots[i].tid);
        if (whose && !(of_the_dead && syscall(SYS_tkill, whose, 0) && errno == ESRCH)) continue;
        if (atomic_compare_exchange_strong(&page->slots[i].tid, &whose, tid)) return &page->slots[i];
    }
    return 0;
}

static struct slot *slot(void) {
    if (mine) return mine;
    int before = errno;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    for (int i = 0; i < SLOTS && !mine; i++)
        if (atomic_load(&page->slots[i].tid) == tid) mine = &page->slots[i]; /* of the program that this one replaced */
    if (!mine) mine = claim(tid, 0);
    if (!mine) mine = claim(tid, 1);
    if (mine) pthread_setspecific(leaving, mine);
    errno = before;
    return mine;
}

__attribute__((destructor)) static void end(void) { if (mine) release(mine); }

/* clocks */

static int real(clockid_t clock, struct timespec *at) {
    return real_gettime ? real_gettime(clock, at) : (int)syscall(SYS_clock_gettime, clock, at);
}

static int64_t nanoseconds(const struct timespec *at) { return at->tv_sec * SECOND + at->tv_nsec; }

static struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static int64_t real_ns(clockid_t clock) {
    struct timespec at;
    real(clock, &at);
    return nanoseconds(&at);
}

static int moves(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_MONOTONIC: case CLOCK_BOOTTIME: case CLOCK_TAI: case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE: case CLOCK_MONOTONIC_RAW: case CLOCK_REALTIME_ALARM: case CLOCK_BOOTTIME_ALARM:
        return 1;
    }
    return 0;
}

static int64_t now_of(clockid_t clock) { return real_ns(clock) + atomic_load(&page->offset); }

static int64_t now(void) { return now_of(CLOCK_MONOTONIC); }

/* A limit far away must not overflow. */
static int64_t after(int64_t ns) { return ns > NEVER / 2 ? NEVER : now() + (ns > 0 ? ns : 0); }

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = real(clock, at);
    if (!result && moves(clock)) *at = timespec_of(nanoseconds(at) + atomic_load(&page->offset));
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    int64_t ns = now_of(CLOCK_REALTIME);
    *at = (struct timeval){.tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000};
    return 0;
}

time_t time(time_t *at) {
    time_t seconds = now_of(CLOCK_REALTIME) / SECOND;
    if (at) *at = seconds;
    return seconds;
}

int timespec_get(struct timespec *at, int base) { return clock_gettime(CLOCK_REALTIME, at) ? 0 : base; }

/* timers: alarm, setitimer, timerfd. A thread of our own lets them ring; another may be amidst any wait, or any call. */

static _Atomic int64_t alarm_at, alarm_every;
static struct { _Atomic int fd; _Atomic int64_t at, every; } timers[TIMERS];
static _Atomic int ticking;

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
        syscall(SYS_timerfd_settime, atomic_load(&timers[i].fd), 0, &at_once, 0);
        rang = 1;
    }
    return rang;
}

static void waits_until(int64_t deadline) {
    struct slot *own = slot();
    if (!own) return;
    atomic_store(&own->deadline, deadline);
    atomic_store(&own->waits, 1);
}

static void waits_no_more(void) { if (mine) atomic_store(&mine->waits, 0); }

static void has_seen(uint64_t epoch) { if (mine) atomic_store(&mine->seen, epoch); }

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
        if (!rang) has_seen(epoch);
    }
    return nothing;
}

static void begin_ticking(void) {
    int no = 0;
    pthread_t thread;
    if (atomic_compare_exchange_strong(&ticking, &no, 1) && !pthread_create(&thread, 0, tick, 0))
        pthread_detach(thread);
}

static void forked(void) { /* alarms and threads are not inherited */
    mine = 0;
    pthread_setspecific(leaving, 0);
    atomic_store(&ticking, 0);
    atomic_store(&alarm_at, 0);
    for (int i = 0; i < TIMERS; i++) atomic_store(&timers[i].at, 0);
}

static int64_t left_of(int64_t at) { return !at ? 0 : at - now() > 1 ? at - now() : 1; }

unsigned alarm(unsigned seconds) {
    int64_t left = left_of(atomic_load(&alarm_at));
    atomic_store(&alarm_every, 0);
    atomic_store(&alarm_at, seconds ? now() + seconds * SECOND : 0);
    if (seconds) begin_ticking();
    return (unsigned)((left + SECOND - 1) / SECOND);
}

static int64_t of_timeval(struct timeval at) { return at.tv_sec * SECOND + at.tv_usec * 1000; }

static struct timeval timeval_of(int64_t ns) {
    return (struct timeval){.tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000};
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

int timerfd_gettime(int fd, struct itimerspec *old) {
    for (int i = 0; i < TIMERS; i++)
        if (atomic_load(&timers[i].fd) == fd) {
            old->it_value = timespec_of(left_of(atomic_load(&timers[i].at)));
            old->it_interval = timespec_of(atomic_load(&timers[i].every));
            return 0;
        }
    return (int)syscall(SYS_timerfd_gettime, fd, old);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old) {
    if (old && timerfd_gettime(fd, old)) return -1;
    struct itimerspec none = {0};
    if (syscall(SYS_timerfd_settime, fd, 0, &none, 0)) return -1;
    int chosen = -1;
    for (int i = 0; i < TIMERS && chosen < 0; i++) if (atomic_load(&timers[i].fd) == fd) chosen = i;
    for (int i = 0; i < TIMERS && chosen < 0; i++) if (!atomic_load(&timers[i].at)) chosen = i;
    if (chosen < 0) { errno = ENOMEM; return -1; }
    int64_t at = nanoseconds(&new->it_value);
    if (at && flags & TFD_TIMER_ABSTIME) { /* of the wall clock, when it is nearer to that */
        int64_t wall = now_of(CLOCK_REALTIME), mono = now();
        at = llabs(at - wall) < llabs(at - mono) ? at - wall + mono : at;
        if (at < 1) at = 1;
    } else if (at) {
        at += now();
    }
    atomic_store(&timers[chosen].fd, fd);
    atomic_store(&timers[chosen].every, nanoseconds(&new->it_interval));
    atomic_store(&timers[chosen].at, at);
    if (at) begin_ticking();
    return 0;
}

/* waits: SLICED repeats a call with the time that it may take, until it tells something or the deadline has come */

static int64_t slice_until(int64_t deadline) {
    int64_t left = deadline - now();
    return left <= 0 ? 0 : left < SLICE ? left : SLICE;
}

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

static int64_t of_milliseconds(int ms) { return ms < 0 ? NEVER : after(ms * 1000000L); }

static int64_t of_timespec(const struct timespec *limit) { return limit ? after(nanoseconds(limit)) : NEVER; }

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    int result;
    int64_t until = of_timespec(timeout);
    SLICED(until, (int)syscall(SYS_ppoll, fds, count, &limit, mask, 8), result == 0);
    return result;
}

int poll(struct pollfd *fds, nfds_t count, int ms) {
    struct timespec timeout = timespec_of(ms < 0 ? 0 : ms * 1000000L);
    return ppoll(fds, count, ms < 0 ? 0 : &timeout, 0);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size) { (void)size; return poll(fds, count, ms); }

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size) {
    (void)size;
    return ppoll(fds, count, timeout, mask);
}

static int select_until(int count, fd_set *r, fd_set *w, fd_set *x, int64_t until, const sigset_t *mask) {
    int result;
    size_t octets = ((size_t)count + 63) / 64 * 8;
    fd_set sets[3];
    struct { const sigset_t *mask; size_t size; } masked = {mask, 8};
#define FRESH(n, of) ((of) ? memcpy(&sets[n], of, octets) : 0)
    SLICED(until, (int)syscall(SYS_pselect6, count, FRESH(0, r), FRESH(1, w), FRESH(2, x), &limit, &masked),
           result == 0);
    if (result >= 0) {
        if (r) memcpy(r, &sets[0], octets);
        if (w) memcpy(w, &sets[1], octets);
        if (x) memcpy(x, &sets[2], octets);
    }
    return result;
}

int select(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x, struct timeval *restrict timeout) {
    return select_until(count, r, w, x, timeout ? after(of_timeval(*timeout)) : NEVER, 0);
}

int pselect(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x,
            const struct timespec *restrict timeout, const sigset_t *restrict mask) {
    return select_until(count, r, w, x, of_timespec(timeout), mask);
}

static int epoll_until(int fd, struct epoll_event *events, int most, int64_t until, const sigset_t *mask) {
    int result; /* in milliseconds, which every kernel knows: rounded up, so that a slice of the last moment ends */
    SLICED(until, (int)syscall(SYS_epoll_pwait, fd, events, most, (int)((slice + 999999) / 1000000), mask, 8),
           result == 0);
    return result;
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask) {
    return epoll_until(fd, events, most, of_milliseconds(ms), mask);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int ms) {
    return epoll_until(fd, events, most, of_milliseconds(ms), 0);
}

int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask) {
    return epoll_until(fd, events, most, of_timespec(timeout), mask);
}

static int nap_until(int64_t until) {
    int result;
    SLICED(until, (int)syscall(SYS_nanosleep, &limit, 0), result == 0);
    return result;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
    int64_t until = of_timespec(time);
    int result = nap_until(until);
    if (result && left) *left = timespec_of(until > now() ? until - now() : 0);
    return result;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    if (!moves(clock)) return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
    int64_t until = flags & TIMER_ABSTIME ? after(nanoseconds(time) - now_of(clock)) : of_timespec(time);
    int result = nap_until(until);
    if (result && left && !(flags & TIMER_ABSTIME)) *left = timespec_of(until > now() ? until - now() : 0);
    return result ? errno : 0;
}

int usleep(useconds_t microseconds) { return nap_until(after(microseconds * 1000L)); }

unsigned sleep(unsigned seconds) {
    int64_t until = after(seconds * SECOND);
    return nap_until(until) && until > now() ? (unsigned)((until - now() + SECOND - 1) / SECOND) : 0;
}

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout) {
    int result;
    int64_t until = of_timespec(timeout);
    SLICED(until, (int)syscall(SYS_rt_sigtimedwait, set, info, &limit, 8), result < 0 && errno == EAGAIN);
    return result;
}

/* Waits of the C library for another thread: it gets a moment of the real clock. */

static struct timespec soon(clockid_t clock, int64_t slice) { return timespec_of(real_ns(clock) + slice); }

#define REAL(name, ...) \
    static int (*next)(__VA_ARGS__); \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, name)

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict at) {
    REAL("sem_clockwait", sem_t *, clockid_t, const struct timespec *);
    int result;
    int64_t until = after(nanoseconds(at) - now_of(clock));
    SLICED(until, (limit = soon(clock, slice), next(sem, clock, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at) {
    REAL("sem_timedwait", sem_t *, const struct timespec *);
    int result;
    int64_t until = after(nanoseconds(at) - now_of(CLOCK_REALTIME));
    SLICED(until, (limit = soon(CLOCK_REALTIME, slice), next(sem, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict at) {
    REAL("pthread_cond_clockwait", pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int result;
    int64_t until = after(nanoseconds(at) - now_of(clock));
    SLICED(until, (limit = soon(clock, slice), next(cond, mutex, clock, &limit)), result == ETIMEDOUT);
    return result;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!next) { /* two versions of it, and the older one has another idea of a condition */
        *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    /* The condition knows its clock and does not tell: it is the one that its deadline is near to. */
    int64_t deadline = nanoseconds(at), wall = now_of(CLOCK_REALTIME), mono = now();
    clockid_t clock = llabs(deadline - wall) < llabs(deadline - mono) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int result;
    int64_t until = after(deadline - now_of(clock));
    SLICED(until, (limit = soon(clock, slice), next(cond, mutex, &limit)), result == ETIMEDOUT);
    return result;
}
