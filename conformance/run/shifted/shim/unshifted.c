/* Time limits that cannot be shifted, since the kernel itself waits. The call is made as the program asks, and a bit of the page
 * (UNSHIFTED_WAITS in shared_page.py) reports it to the harness, which then refuses the program. */
#include "shim.h"
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <threads.h>

enum { RECEIVE_TIMEOUT = 1, SEND_TIMEOUT = 2, TCP_TIMEOUT = 4, MUTEX = 8, SEMAPHORE_SET = 16, MESSAGE_QUEUE = 32,
       READ_WRITE_LOCK = 64 };

static void report(uint64_t bit) { atomic_fetch_or(&page->unshifted, bit); }

int setsockopt(int fd, int level, int option, const void *value, socklen_t size) {
    REAL("setsockopt", int, int, int, int, const void *, socklen_t);
    const struct timeval *limit = value;
    if (level == SOL_SOCKET && size >= sizeof *limit && (limit->tv_sec || limit->tv_usec)) {
        if (option == SO_RCVTIMEO) report(RECEIVE_TIMEOUT);
        if (option == SO_SNDTIMEO) report(SEND_TIMEOUT);
    }
    if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT && size >= sizeof(int) && *(const int *)value)
        report(TCP_TIMEOUT);
    return next(fd, level, option, value, size);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at) {
    REAL("pthread_mutex_timedlock", int, pthread_mutex_t *, const struct timespec *);
    report(MUTEX);
    return next(mutex, at);
}

int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock, const struct timespec *restrict at) {
    REAL("pthread_mutex_clocklock", int, pthread_mutex_t *, clockid_t, const struct timespec *);
    report(MUTEX);
    return next(mutex, clock, at);
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict at) {
    REAL("mtx_timedlock", int, mtx_t *, const struct timespec *);
    report(MUTEX);
    return next(mutex, at);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at) {
    REAL("pthread_rwlock_timedrdlock", int, pthread_rwlock_t *, const struct timespec *);
    report(READ_WRITE_LOCK);
    return next(lock, at);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at) {
    REAL("pthread_rwlock_timedwrlock", int, pthread_rwlock_t *, const struct timespec *);
    report(READ_WRITE_LOCK);
    return next(lock, at);
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock, const struct timespec *restrict at) {
    REAL("pthread_rwlock_clockrdlock", int, pthread_rwlock_t *, clockid_t, const struct timespec *);
    report(READ_WRITE_LOCK);
    return next(lock, clock, at);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock, const struct timespec *restrict at) {
    REAL("pthread_rwlock_clockwrlock", int, pthread_rwlock_t *, clockid_t, const struct timespec *);
    report(READ_WRITE_LOCK);
    return next(lock, clock, at);
}

int semtimedop(int set, struct sembuf *operations, size_t count, const struct timespec *limit) {
    REAL("semtimedop", int, int, struct sembuf *, size_t, const struct timespec *);
    if (limit) report(SEMAPHORE_SET);
    return next(set, operations, count, limit);
}

ssize_t mq_timedreceive(mqd_t queue, char *restrict text, size_t size, unsigned *restrict priority,
                        const struct timespec *restrict at) {
    REAL("mq_timedreceive", ssize_t, mqd_t, char *, size_t, unsigned *, const struct timespec *);
    report(MESSAGE_QUEUE);
    return next(queue, text, size, priority, at);
}

int mq_timedsend(mqd_t queue, const char *text, size_t size, unsigned priority, const struct timespec *at) {
    REAL("mq_timedsend", int, mqd_t, const char *, size_t, unsigned, const struct timespec *);
    report(MESSAGE_QUEUE);
    return next(queue, text, size, priority, at);
}
