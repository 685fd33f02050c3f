/* File times. The kernel stamps files with the machine's time; the page tells which offset was in force at each moment of
 * it, so that a stamp is shown as the shifted clock was when it was made. What is older than the page stays as it is. A
 * time that a program sets itself is one of the shifted clock already: it is stored to the second, with a mark in place of
 * the nanoseconds. */
#include "shim.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

#define MARK 577215664L

static int64_t offset_at(int64_t stamp) {
    uint64_t low = 0, high = atomic_load(&page->jumped);
    if (high > JUMPS) high = JUMPS;
    if (!high || stamp < atomic_load(&page->jumps[0].at)) return 0;
    while (high - low > 1) { /* the last jump that is not later */
        uint64_t middle = low + (high - low) / 2;
        if (atomic_load(&page->jumps[middle].at) <= stamp) low = middle;
        else high = middle;
    }
    return atomic_load(&page->jumps[low].offset);
}

static void show(struct timespec *at) {
    if (at->tv_nsec == MARK) at->tv_nsec = 0;
    else *at = timespec_of(nanoseconds(at) + offset_at(nanoseconds(at)));
}

static int shown(int result, struct stat *of) {
    if (!result) { show(&of->st_atim); show(&of->st_mtim); show(&of->st_ctim); }
    return result;
}

static int shown64(int result, struct stat64 *of) {
    if (!result) { show(&of->st_atim); show(&of->st_mtim); show(&of->st_ctim); }
    return result;
}

#define BY_PATH(name, type, shown) \
    int name(const char *restrict path, struct type *restrict of) { \
        REAL(#name, int, const char *, struct type *); \
        return shown(next(path, of), of); \
    }
#define BY_FD(name, type, shown) \
    int name(int fd, struct type *of) { \
        REAL(#name, int, int, struct type *); \
        return shown(next(fd, of), of); \
    }
#define AT(name, type, shown) \
    int name(int fd, const char *restrict path, struct type *restrict of, int flags) { \
        REAL(#name, int, int, const char *, struct type *, int); \
        return shown(next(fd, path, of, flags), of); \
    }

BY_PATH(stat, stat, shown)
BY_PATH(lstat, stat, shown)
BY_FD(fstat, stat, shown)
AT(fstatat, stat, shown)
BY_PATH(stat64, stat64, shown64)
BY_PATH(lstat64, stat64, shown64)
BY_FD(fstat64, stat64, shown64)
AT(fstatat64, stat64, shown64)

/* What programs call that were linked with a C library before 2.33; `version` is of the structure. */
#define OLD_BY_PATH(name, type, shown) \
    int name(int version, const char *path, struct type *of) { \
        REAL(#name, int, int, const char *, struct type *); \
        return shown(next(version, path, of), of); \
    }
#define OLD_BY_FD(name, type, shown) \
    int name(int version, int fd, struct type *of) { \
        REAL(#name, int, int, int, struct type *); \
        return shown(next(version, fd, of), of); \
    }
#define OLD_AT(name, type, shown) \
    int name(int version, int fd, const char *path, struct type *of, int flags) { \
        REAL(#name, int, int, int, const char *, struct type *, int); \
        return shown(next(version, fd, path, of, flags), of); \
    }

OLD_BY_PATH(__xstat, stat, shown)
OLD_BY_PATH(__lxstat, stat, shown)
OLD_BY_FD(__fxstat, stat, shown)
OLD_AT(__fxstatat, stat, shown)
OLD_BY_PATH(__xstat64, stat64, shown64)
OLD_BY_PATH(__lxstat64, stat64, shown64)
OLD_BY_FD(__fxstat64, stat64, shown64)
OLD_AT(__fxstatat64, stat64, shown64)

static void show_x(struct statx_timestamp *at) {
    struct timespec as = {.tv_sec = at->tv_sec, .tv_nsec = at->tv_nsec};
    show(&as);
    at->tv_sec = as.tv_sec;
    at->tv_nsec = (uint32_t)as.tv_nsec;
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict of) {
    REAL("statx", int, int, const char *, int, unsigned, struct statx *);
    int result = next(fd, path, flags, mask, of);
    if (!result) { show_x(&of->stx_atime); show_x(&of->stx_mtime); show_x(&of->stx_ctime); show_x(&of->stx_btime); }
    return result;
}

static int set_times(int fd, const char *path, const struct timespec times[2], int flags) {
    struct timespec marked[2];
    if (times) {
        memcpy(marked, times, sizeof marked);
        for (int i = 0; i < 2; i++)
            if (marked[i].tv_nsec >= 0 && marked[i].tv_nsec < SECOND) marked[i].tv_nsec = MARK;
    }
    return (int)syscall(SYS_utimensat, fd, path, times ? marked : 0, flags);
}

int utimensat(int fd, const char *path, const struct timespec times[2], int flags) {
    return set_times(fd, path, times, flags);
}

int futimens(int fd, const struct timespec times[2]) { return set_times(fd, 0, times, 0); }

static int set_at(int fd, const char *path, const struct timeval times[2], int flags) {
    if (!times) return set_times(fd, path, 0, flags);
    struct timespec as[2] = {timespec_of(of_timeval(times[0])), timespec_of(of_timeval(times[1]))};
    return set_times(fd, path, as, flags);
}

int utime(const char *path, const struct utimbuf *times) {
    if (!times) return set_times(AT_FDCWD, path, 0, 0);
    struct timespec as[2] = {{.tv_sec = times->actime}, {.tv_sec = times->modtime}};
    return set_times(AT_FDCWD, path, as, 0);
}

int utimes(const char *path, const struct timeval times[2]) { return set_at(AT_FDCWD, path, times, 0); }

int lutimes(const char *path, const struct timeval times[2]) {
    return set_at(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

int futimes(int fd, const struct timeval times[2]) { return set_at(fd, 0, times, 0); }

int futimesat(int fd, const char *path, const struct timeval times[2]) { return set_at(fd, path, times, 0); }
