/* Waits of the C library for another thread: it gets a moment of the real clock. */
#include "shim.h"
#include <pthread.h>
#include <semaphore.h>

static struct timespec soon(clockid_t clock, int64_t slice) { return timespec_of(real_ns(clock) + slice); }

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict at) {
    REAL("sem_clockwait", int, sem_t *, clockid_t, const struct timespec *);
    int result;
    int64_t until = after(nanoseconds(at) - now_of(clock));
    SLICED(until, (limit = soon(clock, slice), next(sem, clock, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at) {
    REAL("sem_timedwait", int, sem_t *, const struct timespec *);
    int result;
    int64_t until = after(nanoseconds(at) - now_of(CLOCK_REALTIME));
    SLICED(until, (limit = soon(CLOCK_REALTIME, slice), next(sem, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict at) {
    REAL("pthread_cond_clockwait", int, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
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
