/*
 * Comes between a program and its C library (LD_PRELOAD, or ld.so.preload in a private root), for what lies below the
 * directory `data` beside the library's own directory. It keeps a log of which program made, renamed, linked, removed and
 * synced what; the harness rebuilds from it what a power cut leaves (conformance/nodes/disks/durability.py).
 *
 * The persistence model, by default: what ext4, XFS and btrfs all keep.
 *
 * - fsync of a file keeps its content, owner, mode and present names, and the directories on the way to it. So does a write
 *   with O_SYNC or RWF_SYNC.
 * - fdatasync, msync(MS_SYNC) and a write with O_DSYNC or RWF_DSYNC keep the content. They keep the present names only
 *   where the file was never synced or has another size than at its last sync: a rename alone is no data.
 * - fsync of a directory keeps the names in it and its own name, not the content of new files.
 * - create, rename, link and unlink are atomic. One that is followed by a sync neither of that file nor of a directory
 *   that it changed is lost. So is what was written and not synced, also in a file that replaced another.
 * - sync and syncfs keep all. sync_file_range and msync(MS_ASYNC) keep nothing.
 * - times of files, and all attributes of what was never synced itself, are those of the moment of the cut.
 *
 * The stricter reading, which is all that POSIX promises: a name is kept by nothing but fsync of its directory (and sync,
 * syncfs).
 *
 * Not seen, and noted in `blind`: programs that are static, written in Go, or setuid (in a private root these are seen);
 * programs started with a cleaned environment; O_DIRECT; io_uring; kernel and POSIX AIO; files that no call here could read.
 *
 * Faults: syncs take longer (`slow`), syncs fail with EIO (`sync_fails`), writes fail with ENOSPC once `writes_left` are
 * used up; what stdio writes by itself from its buffer is not counted there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The file `state`, shared by all processes of the node: this, then the table of inodes, then the log. Little endian;
 * conformance/nodes/disks/state.py has the same offsets. */
struct state {
    uint64_t end;           /* 0: where the next record goes */
    uint32_t slow;          /* 8: milliseconds that each sync takes longer */
    uint32_t sync_fails;    /* 12: whether syncs fail */
    int64_t writes_left;    /* 16: writes that succeed before all fail; below 0: no limit */
    uint64_t slowed;        /* 24: syncs that were slow */
    uint64_t failed;        /* 32: syncs that failed */
    uint64_t refused;       /* 40: writes that failed */
    uint32_t records;       /* 48: whether there is a log */
    uint32_t whole_device;  /* 52: whether everything on the device of `data` lies below it */
    uint32_t synchronous;   /* 56: whether a file was opened with O_SYNC or O_DSYNC */
    uint32_t prepared;      /* 60: the lock: 0 not made, 1 being made, 2 made */
    pthread_mutex_t lock;   /* 64 */
    char blind[512] __attribute__((aligned(128))); /* 128: the first thing that was not seen, in words */
};
_Static_assert(offsetof(struct state, prepared) == 60 && offsetof(struct state, blind) == 128, "as state.py has it");
#define TABLE_AT 4096u
#define TABLE_SIZE (1u << 21)
#define LOG_AT (TABLE_AT + TABLE_SIZE * 16u)
#define STATE_SIZE (1ull << 36)
#define BLOCK 4096u

/* An inode below `data`. */
struct entry {
    uint64_t ino;
    uint64_t known; /* OTHER, OWN, UNNAMED, or where the record of its last sync is: it is OWN then too */
};
enum { OTHER, OWN, UNNAMED }; /* not below `data`; below it, never synced; it was, and has no name any more */

enum op { CREATE = 1, RENAME, LINK, UNLINK, SYNC, DATASYNC, SYNC_DIRECTORY, SYNC_ALL, EXCHANGE };
enum status { BEGUN = 1, DONE, FAILED };

/* A record is followed by its two names, each with its length before it (2 octets), then, at the next multiple of 8, by
 * what a sync of a file kept: a hash for each block, then the blocks whose hash differs from that in the record `base`. */
struct record {
    uint32_t size; /* of all of it, a multiple of 8 */
    uint16_t op, status;
    uint64_t ino, dir, to_dir; /* a directory that is not below `data` is 0 */
    uint32_t mode, uid, gid, blocks;
    uint64_t length, base;
};
_Static_assert(sizeof(struct record) == 64, "as state.py has it");

/* A name in a directory. */
struct place {
    int ours;
    uint64_t dir;
    char name[NAME_MAX + 1];
};

extern struct state *state HIDDEN;
extern __thread int inside HIDDEN; /* the call comes from a call of the layer's own */
extern int preloaded_by_environment HIDDEN, in_chroot HIDDEN;
extern char library[PATH_MAX] HIDDEN;
extern dev_t device HIDDEN;

HIDDEN void hold(void);
HIDDEN void release(void);
HIDDEN void blind(const char *what, const char *which);
HIDDEN struct entry *entry_of(uint64_t ino);
HIDDEN void know(uint64_t ino, uint64_t known);
HIDDEN int known(const struct stat *seen);
HIDDEN int is_ours(int fd, struct stat *seen);
HIDDEN void find(int at, const char *path, int follow, struct place *place);
HIDDEN struct record *begin(enum op op, const struct place *from, const struct place *to, const char *target);
HIDDEN void concern(struct record *record, const struct stat *seen);
HIDDEN void finish(struct record *record, int done);
HIDDEN int synced(int fd, enum op op);
HIDDEN int sync_refused(int fd);

/* The function of that name that this one comes before. */
#define REAL(name, type, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real)                                                                                                         \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
