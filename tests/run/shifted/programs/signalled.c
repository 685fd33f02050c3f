/* Waits for an hour in the way that its argument names, is signalled right after the first call of the kernel in that wait
 * has told that there is nothing, and prints whether the wait ended with the signal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static int waiting;

/* The C library's own, which whoever cuts waits into slices goes through. */
long syscall(long number, ...) {
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long word[6];
    va_list words;
    va_start(words, number);
    for (int i = 0; i < 6; i++) word[i] = va_arg(words, long);
    va_end(words);
    long result = next(number, word[0], word[1], word[2], word[3], word[4], word[5]);
    int waits = number == SYS_ppoll || number == SYS_pselect6 || number == SYS_epoll_pwait || number == SYS_nanosleep;
    if (waiting && waits && !result) {
        waiting = 0;
        kill(getpid(), SIGUSR1);
    }
    return result;
}

static void rang(int number) { (void)number; }

static int waits(const char *how) {
    struct timespec hour = {HOUR, 0};
    struct timeval long_time = {HOUR, 0};
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    int epoll = epoll_create1(0);
#define IS(name) (!strcmp(how, name))
    if (IS("nanosleep")) return nanosleep(&hour, 0);
    if (IS("clock_nanosleep")) return (errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, 0)) ? -1 : 0;
    if (IS("usleep")) return usleep(900000000);
    if (IS("sleep")) return sleep(HOUR) ? -1 : 0;
    if (IS("poll")) return poll(0, 0, HOUR * 1000);
    if (IS("ppoll")) return ppoll(0, 0, &hour, &none);
    if (IS("select")) return select(0, 0, 0, 0, &long_time);
    if (IS("pselect")) return pselect(0, 0, 0, 0, &hour, &none);
    if (IS("epoll_wait")) return epoll_wait(epoll, &event, 1, HOUR * 1000);
    if (IS("epoll_pwait")) return epoll_pwait(epoll, &event, 1, HOUR * 1000, &none);
    abort();
}

int main(int count, char **words) {
    struct sigaction action = {.sa_handler = rang};
    sigset_t kept;
    if (count != 2) return 2;
    sigaction(SIGUSR1, &action, 0);
    if (words[1][0] == 'p' && words[1][1] != 'o') { /* ppoll, pselect: the signal is let in amidst the call only */
        sigemptyset(&kept);
        sigaddset(&kept, SIGUSR1);
        sigprocmask(SIG_BLOCK, &kept, 0);
    }
    waiting = 1;
    errno = 0;
    int result = waits(words[1]);
    printf("%s %s\n", result < 0 && errno == EINTR ? "interrupted" : "waited on", waiting ? "without a signal" : "");
    return 0;
}
