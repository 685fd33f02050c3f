/* Waits of one thread. Signals are blocked except during the call itself: one that came between two slices would not end the
 * wait. `sigtimedwait`, `sem_timedwait` and `sem_clockwait` take no mask: there such a signal does not end the wait. */
#include "shim.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* Block all signals and store the thread's mask in `before`. Return the mask to set during the call: the program's own for this
 * call, or the thread's. */
static const void *block_signals(uint64_t *before, const sigset_t *mask) {
    uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all);
    return mask ? (const void *)mask : before;
}

/* SLICED for a call that a signal ends: `call` has to pass `admitted` as its signal mask. */
#define SLICED_WITH_SIGNALS(until, mask, call, timed_out) \
    do { \
        uint64_t before; \
        const void *admitted = block_signals(&before, mask); \
        SLICED(until, call, timed_out); \
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before); \
    } while (0)

static int64_t deadline_of_ms(int ms) { return ms < 0 ? NEVER : deadline_after(ms * 1000000L); }

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    int result;
    int64_t until = deadline_of(timeout);
    SLICED_WITH_SIGNALS(until, mask, (int)syscall(SYS_ppoll, fds, count, &limit, admitted, 8), result == 0);
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
    struct { const void *mask; size_t size; } masked = {0, 8};
#define FRESH(n, of) ((of) ? memcpy(&sets[n], of, octets) : 0)
#define ONCE (masked.mask = admitted, (int)syscall(SYS_pselect6, count, FRESH(0, r), FRESH(1, w), FRESH(2, x), &limit, &masked))
    SLICED_WITH_SIGNALS(until, mask, ONCE, result == 0);
    if (result >= 0) {
        if (r) memcpy(r, &sets[0], octets);
        if (w) memcpy(w, &sets[1], octets);
        if (x) memcpy(x, &sets[2], octets);
    }
    return result;
}

int select(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x, struct timeval *restrict timeout) {
    return select_until(count, r, w, x, timeout ? deadline_after(timeval_ns(*timeout)) : NEVER, 0);
}

int pselect(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x,
            const struct timespec *restrict timeout, const sigset_t *restrict mask) {
    return select_until(count, r, w, x, deadline_of(timeout), mask);
}

static int epoll_until(int fd, struct epoll_event *events, int most, int64_t until, const sigset_t *mask) {
    int result; /* epoll_pwait takes milliseconds, rounded up so that the last slice does not end early; older kernels lack
                   epoll_pwait2 */
    SLICED_WITH_SIGNALS(until, mask,
                (int)syscall(SYS_epoll_pwait, fd, events, most, (int)((slice + 999999) / 1000000), admitted, 8),
                result == 0);
    return result;
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask) {
    return epoll_until(fd, events, most, deadline_of_ms(ms), mask);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int ms) {
    return epoll_until(fd, events, most, deadline_of_ms(ms), 0);
}

int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask) {
    return epoll_until(fd, events, most, deadline_of(timeout), mask);
}

static int sleep_until(int64_t until) {
    int result;
    SLICED_WITH_SIGNALS(until, 0, (int)syscall(SYS_ppoll, 0, 0, &limit, admitted, 8), result == 0);
    return result;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
    int64_t until = deadline_of(time);
    int result = sleep_until(until);
    if (result && left) *left = timespec_of(until > now() ? until - now() : 0);
    return result;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    if (!is_shifted(clock)) return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
    int64_t until = flags & TIMER_ABSTIME ? deadline_after(timespec_ns(time) - now_of(clock)) : deadline_of(time);
    int result = sleep_until(until);
    if (result && left && !(flags & TIMER_ABSTIME)) *left = timespec_of(until > now() ? until - now() : 0);
    return result ? errno : 0;
}

int usleep(useconds_t microseconds) { return sleep_until(deadline_after(microseconds * 1000L)); }

int thrd_sleep(const struct timespec *time, struct timespec *left) { return nanosleep(time, left); }

unsigned sleep(unsigned seconds) {
    int64_t until = deadline_after(seconds * SECOND);
    return sleep_until(until) && until > now() ? (unsigned)((until - now() + SECOND - 1) / SECOND) : 0;
}

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout) {
    int result;
    int64_t until = deadline_of(timeout);
    SLICED(until, (int)syscall(SYS_rt_sigtimedwait, set, info, &limit, 8), result < 0 && errno == EAGAIN);
    return result;
}
