/* Waits for another thread. The C library takes an absolute time of the real clock for each slice. */
#include "shim.h"
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

static struct timespec real_limit(clockid_t clock, int64_t slice) { return timespec_of(real_ns(clock) + slice); }

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict at) {
    REAL("sem_clockwait", int, sem_t *, clockid_t, const struct timespec *);
    int result;
    int64_t until = deadline_after(timespec_ns(at) - now_of(clock));
    SLICED(until, (limit = real_limit(clock, slice), next(sem, clock, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at) {
    REAL("sem_timedwait", int, sem_t *, const struct timespec *);
    int result;
    int64_t until = deadline_after(timespec_ns(at) - now_of(CLOCK_REALTIME));
    SLICED(until, (limit = real_limit(CLOCK_REALTIME, slice), next(sem, &limit)), result && errno == ETIMEDOUT);
    return result;
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict at) {
    REAL("pthread_cond_clockwait", int, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int result;
    int64_t until = deadline_after(timespec_ns(at) - now_of(clock));
    SLICED(until, (limit = real_limit(clock, slice), next(cond, mutex, clock, &limit)), result == ETIMEDOUT);
    return result;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!next) { /* glibc has two versions; the older one has another layout of conditions */
        *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    /* The clock of a condition cannot be read from it: take the one whose time is nearer to the deadline. */
    int64_t deadline = timespec_ns(at), wall = now_of(CLOCK_REALTIME), mono = now();
    clockid_t clock = llabs(deadline - wall) < llabs(deadline - mono) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int result;
    int64_t until = deadline_after(deadline - now_of(clock));
    SLICED(until, (limit = real_limit(clock, slice), next(cond, mutex, &limit)), result == ETIMEDOUT);
    return result;
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict at) {
    REAL("cnd_timedwait", int, cnd_t *, mtx_t *, const struct timespec *);
    int result;
    int64_t until = deadline_after(timespec_ns(at) - now_of(CLOCK_REALTIME));
    SLICED(until, (limit = real_limit(CLOCK_REALTIME, slice), next(cond, mutex, &limit)), result == thrd_timedout);
    return result;
}
