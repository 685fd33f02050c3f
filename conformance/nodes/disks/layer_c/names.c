/* Calls that make names, change them and take them away. */
#include "layer.h"
#include <sys/random.h>

/* A name that may be about to be made. */
struct making {
    struct place place;
    struct record *record;
    int fresh;
};

/* The lock is held from here to `made`, when this says that the path is ours. */
static int make(int at, const char *path, int follow, const char *target, struct making *making)
{
    struct stat seen;
    making->fresh = 0;
    making->record = NULL;
    if (!state || inside)
        return 0;
    find(at, path, follow, &making->place);
    if (!making->place.ours)
        return 0;
    hold();
    making->fresh = fstatat(at, path, &seen, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    if (making->fresh)
        making->record = begin(CREATE, &making->place, NULL, target);
    return 1;
}

/* Say what came of it: `fd` is what was opened, or below 0 when the name itself says it. */
static void made(int at, const char *path, int ok, int fd, struct making *making)
{
    struct stat seen;
    int before = errno;
    ok = ok && (fd >= 0 ? fstat(fd, &seen) : fstatat(at, path, &seen, AT_SYMLINK_NOFOLLOW)) == 0;
    if (making->fresh) {
        if (ok) {
            know(seen.st_ino, OWN);
            concern(making->record, &seen);
        }
        finish(making->record, ok);
    }
    release();
    errno = before;
}

static int real_open(int at, const char *path, int flags, mode_t mode)
{
    REAL(openat, int, int, const char *, int, ...);
    return real(at, path, flags, mode);
}

static int opened(int at, const char *path, int flags, mode_t mode)
{
    struct making making;
    struct stat seen;
    int temporary = (flags & O_TMPFILE) == O_TMPFILE;
    if (!state || inside || !(temporary || flags & (O_CREAT | O_DIRECT | O_DSYNC)))
        return real_open(at, path, flags, mode);
    if (in_chroot && flags & O_CREAT && (flags & O_ACCMODE) == O_WRONLY)
        flags = (flags & ~O_ACCMODE) | O_RDWR; /* nothing there could open it again, to read what is synced */
    if (temporary) {
        int fd = real_open(at, path, flags, mode), before = errno;
        if (fd >= 0 && fstat(fd, &seen) == 0 && seen.st_dev == device) {
            hold();
            know(seen.st_ino, OWN);
            struct record *record = begin(CREATE, NULL, NULL, NULL);
            concern(record, &seen);
            finish(record, 1);
            release();
        }
        errno = before;
        return fd;
    }
    if (!make(at, path, !(flags & (O_EXCL | O_NOFOLLOW)), NULL, &making))
        return real_open(at, path, flags, mode);
    making.fresh = making.fresh && flags & O_CREAT;
    int fd = real_open(at, path, flags, mode);
    if (fd >= 0 && flags & O_DIRECT)
        blind("is opened with O_DIRECT", making.place.name);
    if (fd >= 0 && flags & O_DSYNC)
        __atomic_store_n(&state->synchronous, 1, __ATOMIC_SEQ_CST);
    made(at, path, fd >= 0, fd, &making);
    return fd;
}

static mode_t mode_in(int flags, va_list rest)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_in(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return opened(AT_FDCWD, path, flags, mode);                                                                    \
    }
#define OPENAT(name)                                                                                                   \
    int name(int at, const char *path, int flags, ...)                                                                 \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_in(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return opened(at, path, flags, mode);                                                                          \
    }
#define CREAT(name)                                                                                                    \
    int name(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
CREAT(creat)
CREAT(creat64)
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return opened(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return opened(at, path, flags, 0); }

#define FOPEN(name, parameters, arguments)                                                                             \
    FILE *name parameters                                                                                              \
    {                                                                                                                  \
        struct making making;                                                                                          \
        REAL(name, FILE *, const char *, const char *, FILE *);                                                        \
        if (!path || !(strchr(mode, 'w') || strchr(mode, 'a')) || !make(AT_FDCWD, path, 1, NULL, &making))             \
            return real arguments;                                                                                     \
        FILE *file = real arguments;                                                                                   \
        made(AT_FDCWD, path, file != NULL, file ? fileno(file) : -1, &making);                                         \
        return file;                                                                                                   \
    }
#define FOPEN_REAL(name) FOPEN(name, (const char *path, const char *mode), (path, mode, NULL))
#define FREOPEN_REAL(name) FOPEN(name, (const char *path, const char *mode, FILE *old), (path, mode, old))
FOPEN_REAL(fopen)
FOPEN_REAL(fopen64)
FREOPEN_REAL(freopen)
FREOPEN_REAL(freopen64)

/* Files and directories of a free name: glibc's own make them where nothing comes between. */
static int temporary(char *template, int suffix, int flags, int directory)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(template);
    if (suffix < 0 || length < 6 + (size_t)suffix || strncmp(template + length - (size_t)suffix - 6, "XXXXXX", 6) != 0) {
        errno = EINVAL;
        return -1;
    }
    for (int tries = 0; tries < 10000; tries++) {
        unsigned char drawn[6];
        if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
            return -1;
        for (int n = 0; n < 6; n++)
            template[length - (size_t)suffix - 6 + (size_t)n] = letters[drawn[n] % 62];
        int result = directory ? mkdir(template, 0700)
                               : opened(AT_FDCWD, template, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (result >= 0 || errno != EEXIST)
            return result;
    }
    return -1;
}
int mkstemp(char *template) { return temporary(template, 0, 0, 0); }
int mkstemp64(char *template) { return temporary(template, 0, 0, 0); }
int mkostemp(char *template, int flags) { return temporary(template, 0, flags, 0); }
int mkostemp64(char *template, int flags) { return temporary(template, 0, flags, 0); }
int mkstemps(char *template, int suffix) { return temporary(template, suffix, 0, 0); }
int mkstemps64(char *template, int suffix) { return temporary(template, suffix, 0, 0); }
int mkostemps(char *template, int suffix, int flags) { return temporary(template, suffix, flags, 0); }
int mkostemps64(char *template, int suffix, int flags) { return temporary(template, suffix, flags, 0); }
char *mkdtemp(char *template) { return temporary(template, 0, 0, 1) < 0 ? NULL : template; }

#define MAKE(name, at, parameters, types, arguments, target)                                                           \
    int name parameters                                                                                                \
    {                                                                                                                  \
        struct making making;                                                                                          \
        REAL(name, int, types);                                                                                        \
        if (!make(at, path, 0, target, &making))                                                                       \
            return real arguments;                                                                                     \
        int result = real arguments;                                                                                   \
        made(at, path, result == 0, -1, &making);                                                                      \
        return result;                                                                                                 \
    }
#define TYPES(...) __VA_ARGS__
MAKE(mkdir, AT_FDCWD, (const char *path, mode_t mode), TYPES(const char *, mode_t), (path, mode), NULL)
MAKE(mkdirat, at, (int at, const char *path, mode_t mode), TYPES(int, const char *, mode_t), (at, path, mode), NULL)
MAKE(mkfifo, AT_FDCWD, (const char *path, mode_t mode), TYPES(const char *, mode_t), (path, mode), NULL)
MAKE(mkfifoat, at, (int at, const char *path, mode_t mode), TYPES(int, const char *, mode_t), (at, path, mode), NULL)
MAKE(mknod, AT_FDCWD, (const char *path, mode_t mode, dev_t dev), TYPES(const char *, mode_t, dev_t), (path, mode, dev),
     NULL)
MAKE(mknodat, at, (int at, const char *path, mode_t mode, dev_t dev), TYPES(int, const char *, mode_t, dev_t),
     (at, path, mode, dev), NULL)
MAKE(symlink, AT_FDCWD, (const char *target, const char *path), TYPES(const char *, const char *), (target, path), target)
MAKE(symlinkat, at, (const char *target, int at, const char *path), TYPES(const char *, int, const char *),
     (target, at, path), target)

static int real_rename(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    REAL(renameat2, int, int, const char *, int, const char *, unsigned);
    return real(at, from, to_at, to, flags);
}

/* No other name is left of what a name stands for: its inode may be another file's soon. */
static void forget_if_last(const struct stat *seen)
{
    if (seen->st_nlink == 1 && !state->whole_device)
        know(seen->st_ino, UNNAMED);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    struct place source, target;
    struct stat seen, replaced;
    if (!state || inside)
        return real_rename(at, from, to_at, to, flags);
    find(at, from, 0, &source);
    find(to_at, to, 0, &target);
    if (!source.ours && !target.ours)
        return real_rename(at, from, to_at, to, flags);
    hold();
    struct record *record = NULL;
    int there = fstatat(to_at, to, &replaced, AT_SYMLINK_NOFOLLOW) == 0;
    int changes = fstatat(at, from, &seen, AT_SYMLINK_NOFOLLOW) == 0 && !(there && seen.st_ino == replaced.st_ino);
    if (changes) {
        record = begin(flags & RENAME_EXCHANGE ? EXCHANGE : RENAME, &source, &target, NULL);
        concern(record, &seen);
    }
    int result = real_rename(at, from, to_at, to, flags), before = errno;
    if (result == 0 && changes) {
        if (there && !(flags & RENAME_EXCHANGE) && !S_ISDIR(replaced.st_mode))
            forget_if_last(&replaced);
        if (!source.ours)
            know(seen.st_ino, OWN);
    }
    finish(record, result == 0);
    release();
    errno = before;
    return result;
}
int renameat(int at, const char *from, int to_at, const char *to) { return renameat2(at, from, to_at, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    struct place target;
    struct stat seen;
    REAL(linkat, int, int, const char *, int, const char *, int);
    if (inside)
        return real(at, from, to_at, to, flags);
    find(to_at, to, 0, &target);
    if (!target.ours)
        return real(at, from, to_at, to, flags);
    hold();
    struct record *record = begin(LINK, NULL, &target, NULL);
    int result = real(at, from, to_at, to, flags), before = errno;
    int ok = result == 0 && fstatat(to_at, to, &seen, AT_SYMLINK_NOFOLLOW) == 0;
    if (ok && entry_of(seen.st_ino)->known <= UNNAMED)
        know(seen.st_ino, OWN);
    if (ok)
        concern(record, &seen);
    finish(record, ok);
    release();
    errno = before;
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int at, const char *path, int flags)
{
    struct place place;
    struct stat seen;
    REAL(unlinkat, int, int, const char *, int);
    if (inside)
        return real(at, path, flags);
    find(at, path, 0, &place);
    if (!place.ours)
        return real(at, path, flags);
    hold();
    struct record *record = NULL;
    int there = fstatat(at, path, &seen, AT_SYMLINK_NOFOLLOW) == 0;
    if (there) {
        record = begin(UNLINK, &place, NULL, NULL);
        concern(record, &seen);
    }
    int result = real(at, path, flags), before = errno;
    if (result == 0 && there && !S_ISDIR(seen.st_mode))
        forget_if_last(&seen);
    finish(record, result == 0);
    release();
    errno = before;
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path)
{
    int result = unlinkat(AT_FDCWD, path, 0);
    return result < 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : result;
}
