/* Replaces the calls that make something durable, and logs what they keep. */
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

/* Read a block of a file, filled up with zeros; return its octets, or -1. */
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

/* Log a file's present content, with the lock held. The log's end is moved when the record is complete, and not before. */
static void log_content(int fd, const struct stat *seen, enum op op)
{
    unsigned char block[BLOCK];
    struct inode_slot *slot = slot_of(seen->st_ino);
    const struct record *base = slot->known > UNNAMED ? (const struct record *)((char *)state + slot->known) : NULL;
    const uint64_t *base_hashes = base ? (const uint64_t *)(base + 1) : NULL; /* its two names are empty: 4 octets, filled up to 8 */
    uint64_t start = state->end;
    struct record *record = begin_record(op, NULL, NULL, NULL);
    if (!record)
        return;
    state->end = start;
    set_inode(record, seen);
    record->blocks = (uint32_t)((record->length + BLOCK - 1) / BLOCK);
    record->base = base ? slot->known : 0;
    uint64_t *hashes = (uint64_t *)((char *)record + record->size);
    unsigned char *next = (unsigned char *)(hashes + record->blocks);
    if (base_hashes)
        base_hashes++;
    for (uint32_t number = 0; number < record->blocks; number++) {
        if (read_block(fd, block, number) < 0) {
            note_unobserved("cannot be read again, to keep what is synced", "a file");
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
    slot->known = start;
    __atomic_store_n(&state->end, start + record->size, __ATOMIC_SEQ_CST);
}

/* Return a descriptor of the same file that can be read, or one below 0. */
static int reopen(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC)
                                                        : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Block for as long as syncs are delayed now. */
static void delay_sync(void)
{
    uint32_t milliseconds = __atomic_load_n(&state->slow, __ATOMIC_SEQ_CST);
    if (!milliseconds)
        return;
    __atomic_add_fetch(&state->slowed, 1, __ATOMIC_SEQ_CST);
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Whether a sync of this descriptor must fail; then count it and set errno to EIO. */
int sync_must_fail(int fd)
{
    struct stat seen;
    if (in_layer || !fd_is_below_data(fd, &seen) || !__atomic_load_n(&state->sync_fails, __ATOMIC_SEQ_CST))
        return 0;
    __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
    errno = EIO;
    return 1;
}

/* Delay and log a sync of a descriptor that has succeeded; return 0. */
int log_sync(int fd, enum op op)
{
    struct stat seen;
    int before = errno;
    if (in_layer || !fd_is_below_data(fd, &seen))
        return 0;
    delay_sync();
    if (!state->records)
        return 0;
    lock_state();
    if (S_ISDIR(seen.st_mode)) {
        struct record *record = begin_record(SYNC_DIRECTORY, NULL, NULL, NULL);
        set_inode(record, &seen);
        finish_record(record, 1);
    } else if (S_ISREG(seen.st_mode)) {
        int handle = reopen(fd);
        if (handle < 0)
            note_unobserved("cannot be opened again, to keep what is synced", "a file");
        else if (fstat(handle, &seen) == 0)
            log_content(handle, &seen, op);
        close(handle);
    }
    unlock_state();
    errno = before;
    return 0;
}

int fsync(int fd)
{
    REAL(fsync, int, int);
    return sync_must_fail(fd) ? -1 : real(fd) < 0 ? -1 : log_sync(fd, SYNC);
}

int fdatasync(int fd)
{
    REAL(fdatasync, int, int);
    return sync_must_fail(fd) ? -1 : real(fd) < 0 ? -1 : log_sync(fd, DATASYNC);
}

/* Log the content of every file below a directory, with the lock held; close its descriptor. */
static void log_files_below(int at)
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
            note_unobserved("cannot be opened, for sync keeps all", entry->d_name);
        else if (S_ISDIR(seen.st_mode))
            log_files_below(fd);
        else {
            log_content(fd, &seen, SYNC);
            close(fd);
        }
    }
    if (directory)
        closedir(directory);
}

/* Delay and log a sync of the whole file system that has succeeded. */
static void log_sync_of_all(void)
{
    char path[PATH_MAX];
    if (!state || in_layer)
        return;
    delay_sync();
    if (!state->records)
        return;
    lock_state();
    snprintf(path, sizeof path, "%.*s/../data", (int)(strrchr(library, '/') - library), library);
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        note_unobserved("is called where the data directory cannot be found", "sync");
    else
        log_files_below(fd);
    finish_record(begin_record(SYNC_ALL, NULL, NULL, NULL), 1);
    unlock_state();
}

void sync(void)
{
    REAL(sync, void, void);
    real();
    log_sync_of_all();
}

int syncfs(int fd)
{
    struct stat seen;
    REAL(syncfs, int, int);
    int ours = state && !in_layer && fstat(fd, &seen) == 0 && seen.st_dev == device;
    if (ours && __atomic_load_n(&state->sync_fails, __ATOMIC_SEQ_CST)) {
        __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
        errno = EIO;
        return -1;
    }
    int result = real(fd);
    if (result == 0 && ours)
        log_sync_of_all();
    return result;
}

/* Open the file that is mapped at an address; return its descriptor, or one below 0. */
static int open_mapped(const void *address)
{
    char line[PATH_MAX + 128];
    in_layer = 1;
    FILE *maps = fopen("/proc/self/maps", "re");
    int found = -2;
    if (!maps)
        note_unobserved("is called where /proc is not there", "msync");
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
    in_layer = 0;
    return found;
}

int msync(void *address, size_t length, int flags)
{
    REAL(msync, int, void *, size_t, int);
    if (!state || in_layer || !(flags & MS_SYNC))
        return real(address, length, flags);
    int fd = open_mapped(address), result = fd >= 0 && sync_must_fail(fd) ? -1 : real(address, length, flags);
    if (fd >= 0) {
        if (result == 0)
            log_sync(fd, DATASYNC);
        int before = errno;
        close(fd);
        errno = before;
    }
    return result;
}
