/* The state that all processes of the node share: the lock, the table of inodes, and the log. */
#include "layer.h"
#include <sys/mman.h>

struct state *state;
__thread int in_layer __attribute__((tls_model("initial-exec")));
int preloaded_by_environment, in_chroot;
char library[PATH_MAX];
dev_t device;

/* Print why the layer cannot work, and abort: a program must not believe that something is durable which is not logged. */
static void abort_with(const char *what)
{
    static const char words[] = "layer: ";
    if (write(2, words, sizeof words - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
        abort();
    abort();
}

/* Initialise the shared lock, or wait until another process has. */
static void create_lock(void)
{
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&state->prepared, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&state->lock, &kind);
        __atomic_store_n(&state->prepared, 2, __ATOMIC_SEQ_CST);
    }
    while (__atomic_load_n(&state->prepared, __ATOMIC_SEQ_CST) != 2)
        usleep(100);
}

/* Run when the library is loaded: find the data directory and map the state. */
__attribute__((constructor)) static void open_state(void)
{
    char path[PATH_MAX];
    struct stat seen;
    Dl_info own;
    const char *preloaded = getenv("LD_PRELOAD");
    if (!dladdr(&state, &own) || !realpath(own.dli_fname, library))
        abort_with("it does not know where it is");
    preloaded_by_environment = preloaded && strstr(preloaded, strrchr(library, '/'));
    char *slash = strrchr(library, '/');
    snprintf(path, sizeof path, "%.*s/../data", (int)(slash - library), library);
    if (stat(path, &seen) < 0)
        abort_with("its data directory is not there");
    device = seen.st_dev;
    snprintf(path, sizeof path, "%.*s/state", (int)(slash - library), library);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, STATE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED)
        abort_with("its state cannot be opened");
    close(fd);
    madvise(mapped, STATE_SIZE, MADV_DONTDUMP);
    state = mapped;
    create_lock();
}

/* Take the lock, even if a process died with it. Calls of this thread are not logged until `unlock_state`. */
void lock_state(void)
{
    in_layer = 1;
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&state->lock);
}

void unlock_state(void)
{
    pthread_mutex_unlock(&state->lock);
    in_layer = 0;
}

/* Note that something cannot be observed ("WHICH WHAT", as in "f is opened with O_DIRECT"); only the first is kept. */
void note_unobserved(const char *what, const char *which)
{
    static const char none = 0;
    char first = none;
    if (__atomic_compare_exchange_n(&state->unobserved[0], &first, ' ', 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        snprintf(state->unobserved, sizeof state->unobserved, "%s %s", which, what);
}

/* Return the slot of an inode's number in the table, or the free slot where it belongs. */
struct inode_slot *slot_of(uint64_t ino)
{
    struct inode_slot *table = (struct inode_slot *)((char *)state + TABLE_AT);
    for (uint32_t at = (uint32_t)((ino * 0x9E3779B97F4A7C15ull) >> 43) % TABLE_SIZE, n = 0; n < TABLE_SIZE; n++) {
        struct inode_slot *slot = table + (at + n) % TABLE_SIZE;
        if (slot->ino == ino || slot->ino == 0)
            return slot;
    }
    abort_with("too many files");
    return NULL;
}

/* Set what is known about an inode (see `struct inode_slot`). */
void set_known(uint64_t ino, uint64_t known_as)
{
    struct inode_slot *slot = slot_of(ino);
    slot->ino = ino;
    slot->known = known_as;
}

/* Whether an inode is below the data directory. */
int is_below_data(const struct stat *seen)
{
    if (seen->st_dev != device)
        return 0;
    if (state->whole_device)
        return 1;
    uint64_t known_as = slot_of(seen->st_ino)->known;
    return known_as == UNNAMED ? seen->st_nlink == 0 : known_as != OTHER; /* with a name, the number is another file's by now */
}

/* Whether an open file is below the data directory; set its status. */
int fd_is_below_data(int fd, struct stat *seen)
{
    return state && fstat(fd, seen) == 0 && is_below_data(seen);
}

/* Set the directory and name that a path leads to; follow a symbolic link at its end if asked. */
void find_entry(int at, const char *path, int follow, struct dir_entry *entry)
{
    char text[PATH_MAX], link[PATH_MAX];
    struct stat seen;
    entry->below_data = 0;
    if (!state || !path || strlen(path) >= sizeof text)
        return;
    strcpy(text, path);
    for (int hops = 0; hops < 8; hops++) {
        size_t length = strlen(text);
        while (length > 1 && text[length - 1] == '/')
            text[--length] = 0;
        char *slash = strrchr(text, '/');
        const char *name = slash ? slash + 1 : text;
        if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) > NAME_MAX)
            return;
        strcpy(entry->name, name);
        ssize_t got = follow ? readlinkat(at, text, link, sizeof link - 1) : -1;
        if (got < 0) {
            if (slash)
                slash[slash == text] = 0;
            if (fstatat(at, slash ? text : ".", &seen, 0) < 0 || !is_below_data(&seen))
                return;
            entry->dir = seen.st_ino;
            entry->below_data = 1;
            return;
        }
        link[got] = 0;
        size_t kept = link[0] == '/' || !slash ? 0 : (size_t)(slash - text) + 1;
        if (kept + (size_t)got >= sizeof text)
            return;
        strcpy(text + kept, link);
    }
}

/* Write a name after its length; return the address after it. */
static char *append_name(char *at, const char *name)
{
    uint16_t length = (uint16_t)strlen(name);
    memcpy(at, &length, sizeof length);
    memcpy(at + sizeof length, name, length);
    return at + sizeof length + length;
}

/* Begin a record, with the lock held; return NULL when nothing is logged. `target` is that of a new symbolic link. A record
 * that is never finished was interrupted by the end of its process. */
struct record *begin_record(enum op op, const struct dir_entry *from, const struct dir_entry *to, const char *target)
{
    struct record *record = (struct record *)((char *)state + state->end);
    if (!state->records)
        return NULL;
    if (state->end + (1ull << 30) > STATE_SIZE)
        abort_with("its log is full");
    memset(record, 0, sizeof *record);
    record->op = (uint16_t)op;
    record->status = BEGUN;
    record->dir = from && from->below_data ? from->dir : 0;
    record->to_dir = to && to->below_data ? to->dir : 0;
    char *at = append_name((char *)(record + 1), from && from->below_data ? from->name : "");
    at = append_name(at, target ? target : to && to->below_data ? to->name : "");
    record->size = ((uint32_t)(at - (char *)record) + 7u) & ~7u;
    __atomic_store_n(&state->end, state->end + record->size, __ATOMIC_SEQ_CST);
    return record;
}

/* Write the inode that a record is about; do nothing for NULL. */
void set_inode(struct record *record, const struct stat *seen)
{
    if (!record)
        return;
    record->ino = seen->st_ino;
    record->mode = seen->st_mode;
    record->uid = seen->st_uid;
    record->gid = seen->st_gid;
    record->length = (uint64_t)seen->st_size;
}

/* Write whether the call of a record succeeded; do nothing for NULL. */
void finish_record(struct record *record, int done)
{
    if (record)
        __atomic_store_n(&record->status, done ? DONE : FAILED, __ATOMIC_SEQ_CST);
}
