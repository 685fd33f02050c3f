/* Calls that make something durable: what they keep goes to the log. */
#include "layer.h"
#include <aio.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t hash_of(const unsigned char *block)
{
    uint64_t hash = 1469598103934665603ull, word;
    for (size_t at = 0; at < BLOCK; at += sizeof word) {
        memcpy(&word, block + at, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static ssize_t read_block(int fd, unsigned char *block, uint64_t number)
{
    size_t got = 0;
    while (got < BLOCK) {
        ssize_t more = pread(fd, block + got, BLOCK - got, (off_t)(number * BLOCK + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return -1;
        if (more == 0)
            break;
        got += (size_t)more;
    }
    memset(block + got, 0, BLOCK - got);
    return (ssize_t)got;
}

/* Keep what is in a file now; the lock is held. The record counts from when it is whole. */
static void keep_content(int fd, const struct stat *seen, enum op op)
{
    unsigned char block[BLOCK];
    struct entry *entry = entry_of(seen->st_ino);
    const struct record *base = entry->known > UNNAMED ? (const struct record *)((char *)state + entry->known) : NULL;
    const uint64_t *base_hashes = base ? (const uint64_t *)(base + 1) : NULL; /* its names are empty: 4 octets, filled up */
    uint64_t start = state->end;
    struct record *record = begin(op, NULL, NULL, NULL);
    if (!record)
        return;
    state->end = start;
    concern(record, seen);
    record->blocks = (uint32_t)((record->length + BLOCK - 1) / BLOCK);
    record->base = base ? entry->known : 0;
    uint64_t *hashes = (uint64_t *)((char *)record + record->size);
    unsigned char *next = (unsigned char *)(hashes + record->blocks);
    if (base_hashes)
        base_hashes++;
    for (uint32_t number = 0; number < record->blocks; number++) {
        if (read_block(fd, block, number) < 0) {
            blind("cannot be read again, to keep what is synced", "a file");
            return;
        }
        hashes[number] = hash_of(block);
        if (base && number < base->blocks && base_hashes[number] == hashes[number])
            continue;
        memcpy(next, block, BLOCK);
        next += BLOCK;
    }
    record->size = (uint32_t)(next - (unsigned char *)record);
    record->status = DONE;
    entry->known = start;
    __atomic_store_n(&state->end, start + record->size, __ATOMIC_SEQ_CST);
}

/* Open a file again for reading; its handle may be for writing only. */
static int again(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC)
                                                        : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void be_slow(void)
{
    uint32_t milliseconds = __atomic_load_n(&state->slow, __ATOMIC_SEQ_CST);
    if (!milliseconds)
        return;
    __atomic_add_fetch(&state->slowed, 1, __ATOMIC_SEQ_CST);
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Whether a sync of this handle is to fail. */
int sync_refused(int fd)
{
    struct stat seen;
    if (inside || !is_ours(fd, &seen) || !__atomic_load_n(&state->sync_fails, __ATOMIC_SEQ_CST))
        return 0;
    __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
    errno = EIO;
    return 1;
}

/* A sync of a handle has succeeded: log what it keeps. */
int synced(int fd, enum op op)
{
    struct stat seen;
    int before = errno;
    if (inside || !is_ours(fd, &seen))
        return 0;
    be_slow();
    if (!state->records)
        return 0;
    hold();
    if (S_ISDIR(seen.st_mode)) {
        struct record *record = begin(SYNC_DIRECTORY, NULL, NULL, NULL);
        concern(record, &seen);
        finish(record, 1);
    } else if (S_ISREG(seen.st_mode)) {
        int handle = again(fd);
        if (handle < 0)
            blind("cannot be opened again, to keep what is synced", "a file");
        else if (fstat(handle, &seen) == 0)
            keep_content(handle, &seen, op);
        close(handle);
    }
    release();
    errno = before;
    return 0;
}

int fsync(int fd)
{
    REAL(fsync, int, int);
    return sync_refused(fd) ? -1 : real(fd) < 0 ? -1 : synced(fd, SYNC);
}

int fdatasync(int fd)
{
    REAL(fdatasync, int, int);
    return sync_refused(fd) ? -1 : real(fd) < 0 ? -1 : synced(fd, DATASYNC);
}

/* The lock is held: every file below a directory is kept. */
static void keep_below(int at)
{
    DIR *directory = fdopendir(at);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        struct stat seen;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            fstatat(at, entry->d_name, &seen, AT_SYMLINK_NOFOLLOW) < 0 || !(S_ISDIR(seen.st_mode) || S_ISREG(seen.st_mode)))
            continue;
        int fd = openat(at, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            blind("cannot be opened, for sync keeps all", entry->d_name);
        else if (S_ISDIR(seen.st_mode))
            keep_below(fd);
        else {
            keep_content(fd, &seen, SYNC);
            close(fd);
        }
    }
    if (directory)
        closedir(directory);
}

static void keep_all(void)
{
    char path[PATH_MAX];
    if (!state || inside)
        return;
    be_slow();
    if (!state->records)
        return;
    hold();
    snprintf(path, sizeof path, "%.*s/../data", (int)(strrchr(library, '/') - library), library);
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        blind("is called where the data directory cannot be found", "sync");
    else
        keep_below(fd);
    finish(begin(SYNC_ALL, NULL, NULL, NULL), 1);
    release();
}

void sync(void)
{
    REAL(sync, void, void);
    real();
    keep_all();
}

int syncfs(int fd)
{
    struct stat seen;
    REAL(syncfs, int, int);
    int ours = state && !inside && fstat(fd, &seen) == 0 && seen.st_dev == device;
    if (ours && __atomic_load_n(&state->sync_fails, __ATOMIC_SEQ_CST)) {
        __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
        errno = EIO;
        return -1;
    }
    int result = real(fd);
    if (result == 0 && ours)
        keep_all();
    return result;
}

/* Return a handle for what is mapped at an address, or one below 0. */
static int mapped_at(const void *address)
{
    char line[PATH_MAX + 128];
    inside = 1;
    FILE *maps = fopen("/proc/self/maps", "re");
    int found = -2;
    if (!maps)
        blind("is called where /proc is not there", "msync");
    while (maps && found == -2 && fgets(line, sizeof line, maps)) {
        unsigned long first, last;
        int path = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &first, &last, &path) < 2 || (unsigned long)address < first ||
            (unsigned long)address >= last)
            continue;
        line[strcspn(line, "\n")] = 0;
        found = path && line[path] == '/' ? open(line + path, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (maps)
        fclose(maps);
    inside = 0;
    return found;
}

int msync(void *address, size_t length, int flags)
{
    REAL(msync, int, void *, size_t, int);
    if (!state || inside || !(flags & MS_SYNC))
        return real(address, length, flags);
    int fd = mapped_at(address), result = fd >= 0 && sync_refused(fd) ? -1 : real(address, length, flags);
    if (fd >= 0) {
        if (result == 0)
            synced(fd, DATASYNC);
        int before = errno;
        close(fd);
        errno = before;
    }
    return result;
}
