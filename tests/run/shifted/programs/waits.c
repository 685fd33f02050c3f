/* Waits for an hour in the way that its argument names, and prints how many seconds two clocks saw pass. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static struct timespec in_an_hour(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_sec += HOUR;
    return at;
}

static void posted(union sigval value) { sem_post(value.sival_ptr); }

static void rang(int number) { (void)number; }

static int waits(const char *how) {
    struct timespec hour = {HOUR, 0}, at;
    struct timeval long_time = {HOUR, 0};
    struct epoll_event event;
    struct itimerval once = {.it_value = {HOUR, 0}};
    struct itimerspec timer = {.it_value = hour};
    uint64_t ticks = 0;
    int epoll = epoll_create1(0), fd;
    sem_t sem;
    timer_t posix;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    mtx_t c11_mutex;
    cnd_t c11_cond;
    sigset_t set;
    signal(SIGALRM, rang);
    sem_init(&sem, 0, 0);
    pthread_mutex_lock(&mutex);
#define IS(name) (!strcmp(how, name))
    if (IS("sleep")) return sleep(HOUR);
    if (IS("nanosleep")) return nanosleep(&hour, 0);
    if (IS("clock_nanosleep")) return clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, 0);
    if (IS("clock_nanosleep-absolute")) {
        at = in_an_hour(CLOCK_REALTIME);
        return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, 0);
    }
    if (IS("thrd_sleep")) return thrd_sleep(&hour, 0);
    if (IS("usleep")) { for (int i = 0; i < 4; i++) usleep(900000000); return 0; }
    if (IS("poll")) return poll(0, 0, HOUR * 1000);
    if (IS("ppoll")) return ppoll(0, 0, &hour, 0);
    if (IS("select")) return select(0, 0, 0, 0, &long_time);
    if (IS("pselect")) return pselect(0, 0, 0, 0, &hour, 0);
    if (IS("epoll_wait")) return epoll_wait(epoll, &event, 1, HOUR * 1000);
    if (IS("epoll_pwait")) return epoll_pwait(epoll, &event, 1, HOUR * 1000, 0);
    if (IS("sem_timedwait")) { at = in_an_hour(CLOCK_REALTIME); return sem_timedwait(&sem, &at) + 1; }
    if (IS("sem_clockwait")) { at = in_an_hour(CLOCK_MONOTONIC); return sem_clockwait(&sem, CLOCK_MONOTONIC, &at) + 1; }
    if (IS("pthread_cond_timedwait")) {
        at = in_an_hour(CLOCK_REALTIME);
        return pthread_cond_timedwait(&cond, &mutex, &at) != ETIMEDOUT;
    }
    if (IS("pthread_cond_clockwait")) {
        at = in_an_hour(CLOCK_MONOTONIC);
        return pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at) != ETIMEDOUT;
    }
    if (IS("cnd_timedwait")) {
        at = in_an_hour(CLOCK_REALTIME);
        return mtx_init(&c11_mutex, mtx_timed) || cnd_init(&c11_cond) || mtx_lock(&c11_mutex)
               || cnd_timedwait(&c11_cond, &c11_mutex, &at) != thrd_timedout;
    }
    if (IS("sigtimedwait")) { sigemptyset(&set); return sigtimedwait(&set, 0, &hour) + 1; }
    if (IS("alarm")) { alarm(HOUR); pause(); return 0; }
    if (IS("setitimer")) { setitimer(ITIMER_REAL, &once, 0); pause(); return 0; }
    if (IS("timer_create-signal")) {
        timer_create(CLOCK_REALTIME, &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM}, &posix);
        timer_settime(posix, 0, &timer, 0);
        pause();
        return timer_delete(posix);
    }
    if (IS("timer_create-thread")) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = posted, .sigev_value.sival_ptr = &sem};
        timer.it_value = in_an_hour(CLOCK_MONOTONIC);
        timer_create(CLOCK_MONOTONIC, &event, &posix);
        timer_settime(posix, TIMER_ABSTIME, &timer, 0);
        while (sem_wait(&sem)) { }
        return timer_delete(posix);
    }
    if (IS("timerfd-read")) {
        fd = timerfd_create(CLOCK_MONOTONIC, 0);
        timerfd_settime(fd, 0, &timer, 0);
        return read(fd, &ticks, sizeof ticks) != sizeof ticks;
    }
    if (IS("timerfd-epoll")) {
        fd = timerfd_create(CLOCK_REALTIME, 0);
        timer.it_value = in_an_hour(CLOCK_REALTIME);
        timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, 0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN});
        return epoll_wait(epoll, &event, 1, -1) - 1;
    }
    return 2;
}

int main(int argc, char **argv) {
    struct timespec mono, wall, mono_after, wall_after;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_REALTIME, &wall);
    int result = argc > 1 ? waits(argv[1]) : 3;
    clock_gettime(CLOCK_MONOTONIC, &mono_after);
    clock_gettime(CLOCK_REALTIME, &wall_after);
    printf("%ld %ld\n", mono_after.tv_sec - mono.tv_sec, wall_after.tv_sec - wall.tv_sec);
    return result;
}
