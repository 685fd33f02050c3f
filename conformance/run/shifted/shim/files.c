/* File times. The kernel stamps files with the machine's time. The page has every jump, so the offset that was in force at a
 * stamp is known, and is added when the program reads it. A stamp from before the first jump is not changed.
 *
 * A time that a program sets is one of the shifted clock already. It is stored to the second, with SET_BY_PROGRAM as its
 * nanoseconds, which marks it as not to be shifted. */
#include "shim.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

#define SET_BY_PROGRAM 577215664L

/* Return the offset that was in force when the kernel made a stamp. */
static int64_t offset_at(int64_t stamp) {
    uint64_t low = 0, high = atomic_load(&page->jump_count);
    if (high > JUMPS) high = JUMPS;
    if (!high || stamp < atomic_load(&page->jumps[0].at)) return 0;
    while (high - low > 1) { /* find the last jump that is not later */
        uint64_t middle = low + (high - low) / 2;
        if (atomic_load(&page->jumps[middle].at) <= stamp) low = middle;
        else high = middle;
    }
    return atomic_load(&page->jumps[low].offset);
}

static void shift_time(struct timespec *at) {
    if (at->tv_nsec == SET_BY_PROGRAM) at->tv_nsec = 0;
    else *at = timespec_of(timespec_ns(at) + offset_at(timespec_ns(at)));
}

static int shift_stat(int result, struct stat *of) {
    if (!result) { shift_time(&of->st_atim); shift_time(&of->st_mtim); shift_time(&of->st_ctim); }
    return result;
}

static int shift_stat64(int result, struct stat64 *of) {
    if (!result) { shift_time(&of->st_atim); shift_time(&of->st_mtim); shift_time(&of->st_ctim); }
    return result;
}

#define BY_PATH(name, type, shift_stat) \
    int name(const char *restrict path, struct type *restrict of) { \
        REAL(#name, int, const char *, struct type *); \
        return shift_stat(next(path, of), of); \
    }
#define BY_FD(name, type, shift_stat) \
    int name(int fd, struct type *of) { \
        REAL(#name, int, int, struct type *); \
        return shift_stat(next(fd, of), of); \
    }
#define AT(name, type, shift_stat) \
    int name(int fd, const char *restrict path, struct type *restrict of, int flags) { \
        REAL(#name, int, int, const char *, struct type *, int); \
        return shift_stat(next(fd, path, of, flags), of); \
    }

BY_PATH(stat, stat, shift_stat)
BY_PATH(lstat, stat, shift_stat)
BY_FD(fstat, stat, shift_stat)
AT(fstatat, stat, shift_stat)
BY_PATH(stat64, stat64, shift_stat64)
BY_PATH(lstat64, stat64, shift_stat64)
BY_FD(fstat64, stat64, shift_stat64)
AT(fstatat64, stat64, shift_stat64)

/* Called by programs that were linked with glibc before 2.33; `version` is that of the structure. */
#define OLD_BY_PATH(name, type, shift_stat) \
    int name(int version, const char *path, struct type *of) { \
        REAL(#name, int, int, const char *, struct type *); \
        return shift_stat(next(version, path, of), of); \
    }
#define OLD_BY_FD(name, type, shift_stat) \
    int name(int version, int fd, struct type *of) { \
        REAL(#name, int, int, int, struct type *); \
        return shift_stat(next(version, fd, of), of); \
    }
#define OLD_AT(name, type, shift_stat) \
    int name(int version, int fd, const char *path, struct type *of, int flags) { \
        REAL(#name, int, int, int, const char *, struct type *, int); \
        return shift_stat(next(version, fd, path, of, flags), of); \
    }

OLD_BY_PATH(__xstat, stat, shift_stat)
OLD_BY_PATH(__lxstat, stat, shift_stat)
OLD_BY_FD(__fxstat, stat, shift_stat)
OLD_AT(__fxstatat, stat, shift_stat)
OLD_BY_PATH(__xstat64, stat64, shift_stat64)
OLD_BY_PATH(__lxstat64, stat64, shift_stat64)
OLD_BY_FD(__fxstat64, stat64, shift_stat64)
OLD_AT(__fxstatat64, stat64, shift_stat64)

static void shift_statx_time(struct statx_timestamp *at) {
    struct timespec as = {.tv_sec = at->tv_sec, .tv_nsec = at->tv_nsec};
    shift_time(&as);
    at->tv_sec = as.tv_sec;
    at->tv_nsec = (uint32_t)as.tv_nsec;
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict of) {
    REAL("statx", int, int, const char *, int, unsigned, struct statx *);
    int result = next(fd, path, flags, mask, of);
    if (!result) { shift_statx_time(&of->stx_atime); shift_statx_time(&of->stx_mtime); shift_statx_time(&of->stx_ctime); shift_statx_time(&of->stx_btime); }
    return result;
}

/* Set the times of a file, marked as set by the program; UTIME_NOW and UTIME_OMIT are passed on as they are. */
static int set_timespecs(int fd, const char *path, const struct timespec times[2], int flags) {
    struct timespec marked[2];
    if (times) {
        memcpy(marked, times, sizeof marked);
        for (int i = 0; i < 2; i++)
            if (marked[i].tv_nsec >= 0 && marked[i].tv_nsec < SECOND) marked[i].tv_nsec = SET_BY_PROGRAM;
    }
    return (int)syscall(SYS_utimensat, fd, path, times ? marked : 0, flags);
}

int utimensat(int fd, const char *path, const struct timespec times[2], int flags) {
    return set_timespecs(fd, path, times, flags);
}

int futimens(int fd, const struct timespec times[2]) { return set_timespecs(fd, 0, times, 0); }

static int set_timevals(int fd, const char *path, const struct timeval times[2], int flags) {
    if (!times) return set_timespecs(fd, path, 0, flags);
    struct timespec as[2] = {timespec_of(timeval_ns(times[0])), timespec_of(timeval_ns(times[1]))};
    return set_timespecs(fd, path, as, flags);
}

int utime(const char *path, const struct utimbuf *times) {
    if (!times) return set_timespecs(AT_FDCWD, path, 0, 0);
    struct timespec as[2] = {{.tv_sec = times->actime}, {.tv_sec = times->modtime}};
    return set_timespecs(AT_FDCWD, path, as, 0);
}

int utimes(const char *path, const struct timeval times[2]) { return set_timevals(AT_FDCWD, path, times, 0); }

int lutimes(const char *path, const struct timeval times[2]) {
    return set_timevals(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

int futimes(int fd, const struct timeval times[2]) { return set_timevals(fd, 0, times, 0); }

int futimesat(int fd, const char *path, const struct timeval times[2]) { return set_timevals(fd, path, times, 0); }
