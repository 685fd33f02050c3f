/* Reads clocks, and adds the offset to those that are shifted; the clocks of processor time are not. */
#include "shim.h"

/* Read the machine's clock, without the offset. */
static int read_real(clockid_t clock, struct timespec *at) {
    REAL("clock_gettime", int, clockid_t, struct timespec *);
    return next ? next(clock, at) : (int)syscall(SYS_clock_gettime, clock, at);
}

int64_t real_ns(clockid_t clock) {
    struct timespec at;
    read_real(clock, &at);
    return timespec_ns(&at);
}

int is_shifted(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_MONOTONIC: case CLOCK_BOOTTIME: case CLOCK_TAI: case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE: case CLOCK_MONOTONIC_RAW: case CLOCK_REALTIME_ALARM: case CLOCK_BOOTTIME_ALARM:
        return 1;
    }
    return 0;
}

int64_t now_of(clockid_t clock) { return real_ns(clock) + atomic_load(&page->offset); }

int64_t now(void) { return now_of(CLOCK_MONOTONIC); }

/* Return the deadline of a limit of `ns` from now; a limit far away must not overflow. */
int64_t deadline_after(int64_t ns) { return ns > NEVER / 2 ? NEVER : now() + (ns > 0 ? ns : 0); }

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = read_real(clock, at);
    if (!result && is_shifted(clock)) *at = timespec_of(timespec_ns(at) + atomic_load(&page->offset));
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    if (zone) *(struct timezone *)zone = (struct timezone){0}; /* as the C library does */
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
