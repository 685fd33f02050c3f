/* Replaces the calls that create, rename, link and remove names. */
#include "layer.h"
#include <sys/random.h>

/* A call that may create a name; `fresh`: nothing had the name before. */
struct creation {
    struct dir_entry entry;
    struct record *record;
    int fresh;
};

/* Begin a call that may create a path. Return whether the path is below `data`: then take the lock, which `end_creation`
 * releases, and begin a record if nothing has the name. */
static int begin_creation(int at, const char *path, int follow, const char *target, struct creation *creation)
{
    struct stat seen;
    creation->fresh = 0;
    creation->record = NULL;
    if (!state || in_layer)
        return 0;
    find_entry(at, path, follow, &creation->entry);
    if (!creation->entry.below_data)
        return 0;
    lock_state();
    creation->fresh = fstatat(at, path, &seen, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    if (creation->fresh)
        creation->record = begin_record(CREATE, &creation->entry, NULL, target);
    return 1;
}

/* Finish the record of a call that created a path if `ok`, and release the lock. The inode is that of `fd`, or, when that
 * is negative, of the path. */
static void end_creation(int at, const char *path, int ok, int fd, struct creation *creation)
{
    struct stat seen;
    int before = errno;
    ok = ok && (fd >= 0 ? fstat(fd, &seen) : fstatat(at, path, &seen, AT_SYMLINK_NOFOLLOW)) == 0;
    if (creation->fresh) {
        if (ok) {
            set_known(seen.st_ino, OWN);
            set_inode(creation->record, &seen);
        }
        finish_record(creation->record, ok);
    }
    unlock_state();
    errno = before;
}

static int real_open(int at, const char *path, int flags, mode_t mode)
{
    REAL(openat, int, int, const char *, int, ...);
    return real(at, path, flags, mode);
}

/* Open a file as openat(2) does, and log that it was created. */
static int open_logged(int at, const char *path, int flags, mode_t mode)
{
    struct creation creation;
    struct stat seen;
    int temporary = (flags & O_TMPFILE) == O_TMPFILE;
    if (!state || in_layer || !(temporary || flags & (O_CREAT | O_DIRECT | O_DSYNC)))
        return real_open(at, path, flags, mode);
    if (in_chroot && flags & O_CREAT && (flags & O_ACCMODE) == O_WRONLY)
        flags = (flags & ~O_ACCMODE) | O_RDWR; /* a sync reads the file, and in a chroot without /proc it cannot be reopened */
    if (temporary) {
        int fd = real_open(at, path, flags, mode), before = errno;
        if (fd >= 0 && fstat(fd, &seen) == 0 && seen.st_dev == device) {
            lock_state();
            set_known(seen.st_ino, OWN);
            struct record *record = begin_record(CREATE, NULL, NULL, NULL);
            set_inode(record, &seen);
            finish_record(record, 1);
            unlock_state();
        }
        errno = before;
        return fd;
    }
    if (!begin_creation(at, path, !(flags & (O_EXCL | O_NOFOLLOW)), NULL, &creation))
        return real_open(at, path, flags, mode);
    creation.fresh = creation.fresh && flags & O_CREAT;
    int fd = real_open(at, path, flags, mode);
    if (fd >= 0 && flags & O_DIRECT)
        note_unobserved("is opened with O_DIRECT", creation.entry.name);
    if (fd >= 0 && flags & O_DSYNC)
        __atomic_store_n(&state->synchronous, 1, __ATOMIC_SEQ_CST);
    end_creation(at, path, fd >= 0, fd, &creation);
    return fd;
}

/* Return the optional argument of open(2). */
static mode_t mode_argument(int flags, va_list rest)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_argument(flags, rest);                                                                      \
        va_end(rest);                                                                                                  \
        return open_logged(AT_FDCWD, path, flags, mode);                                                               \
    }
#define OPENAT(name)                                                                                                   \
    int name(int at, const char *path, int flags, ...)                                                                 \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_argument(flags, rest);                                                                      \
        va_end(rest);                                                                                                  \
        return open_logged(at, path, flags, mode);                                                                     \
    }
#define CREAT(name)                                                                                                    \
    int name(const char *path, mode_t mode) { return open_logged(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
CREAT(creat)
CREAT(creat64)
int __open_2(const char *path, int flags) { return open_logged(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_logged(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return open_logged(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return open_logged(at, path, flags, 0); }

#define FOPEN(name, parameters, arguments)                                                                             \
    FILE *name parameters                                                                                              \
    {                                                                                                                  \
        struct creation creation;                                                                                      \
        REAL(name, FILE *, const char *, const char *, FILE *);                                                        \
        if (!path || !(strchr(mode, 'w') || strchr(mode, 'a')) || !begin_creation(AT_FDCWD, path, 1, NULL, &creation)) \
            return real arguments;                                                                                     \
        FILE *file = real arguments;                                                                                   \
        end_creation(AT_FDCWD, path, file != NULL, file ? fileno(file) : -1, &creation);                               \
        return file;                                                                                                   \
    }
#define FOPEN_REAL(name) FOPEN(name, (const char *path, const char *mode), (path, mode, NULL))
#define FREOPEN_REAL(name) FOPEN(name, (const char *path, const char *mode, FILE *old), (path, mode, old))
FOPEN_REAL(fopen)
FOPEN_REAL(fopen64)
FREOPEN_REAL(freopen)
FREOPEN_REAL(freopen64)

/* Create a file or directory with a random name: glibc's own functions do that by system calls that cannot be replaced. */
static int make_temporary(char *template, int suffix, int flags, int directory)
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
                               : open_logged(AT_FDCWD, template, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (result >= 0 || errno != EEXIST)
            return result;
    }
    return -1;
}
int mkstemp(char *template) { return make_temporary(template, 0, 0, 0); }
int mkstemp64(char *template) { return make_temporary(template, 0, 0, 0); }
int mkostemp(char *template, int flags) { return make_temporary(template, 0, flags, 0); }
int mkostemp64(char *template, int flags) { return make_temporary(template, 0, flags, 0); }
int mkstemps(char *template, int suffix) { return make_temporary(template, suffix, 0, 0); }
int mkstemps64(char *template, int suffix) { return make_temporary(template, suffix, 0, 0); }
int mkostemps(char *template, int suffix, int flags) { return make_temporary(template, suffix, flags, 0); }
int mkostemps64(char *template, int suffix, int flags) { return make_temporary(template, suffix, flags, 0); }
char *mkdtemp(char *template) { return make_temporary(template, 0, 0, 1) < 0 ? NULL : template; }

#define MAKE(name, at, parameters, types, arguments, target)                                                           \
    int name parameters                                                                                                \
    {                                                                                                                  \
        struct creation creation;                                                                                      \
        REAL(name, int, types);                                                                                        \
        if (!begin_creation(at, path, 0, target, &creation))                                                           \
            return real arguments;                                                                                     \
        int result = real arguments;                                                                                   \
        end_creation(at, path, result == 0, -1, &creation);                                                            \
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

/* If an inode has lost its last name, note that: another file may get its number soon. */
static void note_last_name_gone(const struct stat *seen)
{
    if (seen->st_nlink == 1 && !state->whole_device)
        set_known(seen->st_ino, UNNAMED);
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    struct dir_entry source, target;
    struct stat seen, replaced;
    if (!state || in_layer)
        return real_rename(at, from, to_at, to, flags);
    find_entry(at, from, 0, &source);
    find_entry(to_at, to, 0, &target);
    if (!source.below_data && !target.below_data)
        return real_rename(at, from, to_at, to, flags);
    lock_state();
    struct record *record = NULL;
    int there = fstatat(to_at, to, &replaced, AT_SYMLINK_NOFOLLOW) == 0;
    int changes = fstatat(at, from, &seen, AT_SYMLINK_NOFOLLOW) == 0 && !(there && seen.st_ino == replaced.st_ino);
    if (changes) {
        record = begin_record(flags & RENAME_EXCHANGE ? EXCHANGE : RENAME, &source, &target, NULL);
        set_inode(record, &seen);
    }
    int result = real_rename(at, from, to_at, to, flags), before = errno;
    if (result == 0 && changes) {
        if (there && !(flags & RENAME_EXCHANGE) && !S_ISDIR(replaced.st_mode))
            note_last_name_gone(&replaced);
        if (!source.below_data)
            set_known(seen.st_ino, OWN);
    }
    finish_record(record, result == 0);
    unlock_state();
    errno = before;
    return result;
}
int renameat(int at, const char *from, int to_at, const char *to) { return renameat2(at, from, to_at, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    struct dir_entry target;
    struct stat seen;
    REAL(linkat, int, int, const char *, int, const char *, int);
    if (in_layer)
        return real(at, from, to_at, to, flags);
    find_entry(to_at, to, 0, &target);
    if (!target.below_data)
        return real(at, from, to_at, to, flags);
    lock_state();
    struct record *record = begin_record(LINK, NULL, &target, NULL);
    int result = real(at, from, to_at, to, flags), before = errno;
    int ok = result == 0 && fstatat(to_at, to, &seen, AT_SYMLINK_NOFOLLOW) == 0;
    if (ok && slot_of(seen.st_ino)->known <= UNNAMED)
        set_known(seen.st_ino, OWN);
    if (ok)
        set_inode(record, &seen);
    finish_record(record, ok);
    unlock_state();
    errno = before;
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int at, const char *path, int flags)
{
    struct dir_entry entry;
    struct stat seen;
    REAL(unlinkat, int, int, const char *, int);
    if (in_layer)
        return real(at, path, flags);
    find_entry(at, path, 0, &entry);
    if (!entry.below_data)
        return real(at, path, flags);
    lock_state();
    struct record *record = NULL;
    int there = fstatat(at, path, &seen, AT_SYMLINK_NOFOLLOW) == 0;
    if (there) {
        record = begin_record(UNLINK, &entry, NULL, NULL);
        set_inode(record, &seen);
    }
    int result = real(at, path, flags), before = errno;
    if (result == 0 && there && !S_ISDIR(seen.st_mode))
        note_last_name_gone(&seen);
    finish_record(record, result == 0);
    unlock_state();
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
