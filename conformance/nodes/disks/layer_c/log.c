/* The state that all processes of the node share: the lock, the table of inodes, and the log. */
#include "layer.h"
#include <sys/mman.h>

struct state *state;
__thread int inside __attribute__((tls_model("initial-exec")));
int preloaded_by_environment, in_chroot;
char library[PATH_MAX];
dev_t device;

/* What cannot be kept must not be believed to be kept. */
static void give_up(const char *what)
{
    static const char words[] = "layer: ";
    if (write(2, words, sizeof words - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
        abort();
    abort();
}

static void make_lock(void)
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

__attribute__((constructor)) static void open_state(void)
{
    char path[PATH_MAX];
    struct stat seen;
    Dl_info own;
    const char *preloaded = getenv("LD_PRELOAD");
    if (!dladdr(&state, &own) || !realpath(own.dli_fname, library))
        give_up("it does not know where it is");
    preloaded_by_environment = preloaded && strstr(preloaded, strrchr(library, '/'));
    char *slash = strrchr(library, '/');
    snprintf(path, sizeof path, "%.*s/../data", (int)(slash - library), library);
    if (stat(path, &seen) < 0)
        give_up("its data directory is not there");
    device = seen.st_dev;
    snprintf(path, sizeof path, "%.*s/state", (int)(slash - library), library);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, STATE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED)
        give_up("its state cannot be opened");
    close(fd);
    madvise(mapped, STATE_SIZE, MADV_DONTDUMP);
    state = mapped;
    make_lock();
}

void hold(void)
{
    inside = 1;
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&state->lock);
}

void release(void)
{
    pthread_mutex_unlock(&state->lock);
    inside = 0;
}

void blind(const char *what, const char *which)
{
    static const char none = 0;
    char first = none;
    if (__atomic_compare_exchange_n(&state->blind[0], &first, ' ', 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        snprintf(state->blind, sizeof state->blind, "%s %s", which, what);
}

struct entry *entry_of(uint64_t ino)
{
    struct entry *table = (struct entry *)((char *)state + TABLE_AT);
    for (uint32_t at = (uint32_t)((ino * 0x9E3779B97F4A7C15ull) >> 43) % TABLE_SIZE, n = 0; n < TABLE_SIZE; n++) {
        struct entry *one = table + (at + n) % TABLE_SIZE;
        if (one->ino == ino || one->ino == 0)
            return one;
    }
    give_up("too many files");
    return NULL;
}

void know(uint64_t ino, uint64_t known_as)
{
    struct entry *entry = entry_of(ino);
    entry->ino = ino;
    entry->known = known_as;
}

int known(const struct stat *seen)
{
    if (seen->st_dev != device)
        return 0;
    if (state->whole_device)
        return 1;
    uint64_t known_as = entry_of(seen->st_ino)->known;
    return known_as == UNNAMED ? seen->st_nlink == 0 : known_as != OTHER; /* the number may be another file's by now */
}

int is_ours(int fd, struct stat *seen)
{
    return state && fstat(fd, seen) == 0 && known(seen);
}

/* Find the directory and the name of a path; a symbolic link at its end is followed when asked. */
void find(int at, const char *path, int follow, struct place *place)
{
    char text[PATH_MAX], link[PATH_MAX];
    struct stat seen;
    place->ours = 0;
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
        strcpy(place->name, name);
        ssize_t got = follow ? readlinkat(at, text, link, sizeof link - 1) : -1;
        if (got < 0) {
            if (slash)
                slash[slash == text] = 0;
            if (fstatat(at, slash ? text : ".", &seen, 0) < 0 || !known(&seen))
                return;
            place->dir = seen.st_ino;
            place->ours = 1;
            return;
        }
        link[got] = 0;
        size_t kept = link[0] == '/' || !slash ? 0 : (size_t)(slash - text) + 1;
        if (kept + (size_t)got >= sizeof text)
            return;
        strcpy(text + kept, link);
    }
}

static char *put_name(char *at, const char *name)
{
    uint16_t length = (uint16_t)strlen(name);
    memcpy(at, &length, sizeof length);
    memcpy(at + sizeof length, name, length);
    return at + sizeof length + length;
}

/* Begin a record; the lock is held. What is begun and not finished was interrupted by the end of its process. */
struct record *begin(enum op op, const struct place *from, const struct place *to, const char *target)
{
    struct record *record = (struct record *)((char *)state + state->end);
    if (!state->records)
        return NULL;
    if (state->end + (1ull << 30) > STATE_SIZE)
        give_up("its log is full");
    memset(record, 0, sizeof *record);
    record->op = (uint16_t)op;
    record->status = BEGUN;
    record->dir = from && from->ours ? from->dir : 0;
    record->to_dir = to && to->ours ? to->dir : 0;
    char *at = put_name((char *)(record + 1), from && from->ours ? from->name : "");
    at = put_name(at, target ? target : to && to->ours ? to->name : "");
    record->size = ((uint32_t)(at - (char *)record) + 7u) & ~7u;
    __atomic_store_n(&state->end, state->end + record->size, __ATOMIC_SEQ_CST);
    return record;
}

/* Note the inode that a record concerns. */
void concern(struct record *record, const struct stat *seen)
{
    if (!record)
        return;
    record->ino = seen->st_ino;
    record->mode = seen->st_mode;
    record->uid = seen->st_uid;
    record->gid = seen->st_gid;
    record->length = (uint64_t)seen->st_size;
}

/* Say what came of what was begun. */
void finish(struct record *record, int done)
{
    if (record)
        __atomic_store_n(&record->status, done ? DONE : FAILED, __ATOMIC_SEQ_CST);
}
