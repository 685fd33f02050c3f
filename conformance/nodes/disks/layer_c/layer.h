/*
 * A library between a program and its C library (LD_PRELOAD, or ld.so.preload in a private root). It watches calls on what
 * lies below the directory `data`, which is beside the library's own directory, and logs what they create, rename, link,
 * remove and sync. The harness computes from the log what a power cut leaves (conformance/nodes/disks/durability.py).
 *
 * Each function of the C library that matters is replaced by one of the same name, which calls the real one (REAL). It
 * takes the lock, begins a record, makes the call, and finishes the record with the outcome: so the log has all calls of
 * all processes in their order, and a call that a kill interrupted is a record that was begun only. The state (lock,
 * table of inodes, log) is a file that every process of the node maps.
 *
 * The persistence model, by default: what ext4, XFS and btrfs all keep.
 *
 * - fsync of a file keeps its content, owner, mode and present names, and the directories on the way to it. So does a write
 *   with O_SYNC or RWF_SYNC.
 * - fdatasync, msync(MS_SYNC) and a write with O_DSYNC or RWF_DSYNC keep the content. They keep the present names only
 *   if the file was never synced or has another size than at its last sync: a rename alone is not data.
 * - fsync of a directory keeps the names in it and its own name, not the content of new files.
 * - create, rename, link and unlink are atomic. Such a change is lost if neither that file nor a directory that it changed
 *   is synced afterwards. So is what was written and not synced, also in a file that replaced another.
 * - sync and syncfs keep all. sync_file_range and msync(MS_ASYNC) keep nothing.
 * - The times of files, and all attributes of an inode that was never synced itself, are those at the power cut.
 *
 * By the stricter reading, which is all that POSIX promises, a name is kept only by fsync of its directory (or sync, syncfs).
 *
 * Not observed, and noted in `unobserved`: programs that are static, written in Go, or setuid (except in a private root);
 * programs started with a cleaned environment; O_DIRECT; io_uring; kernel and POSIX AIO; files that the layer cannot read.
 *
 * Faults: syncs are delayed (`slow`), syncs fail with EIO (`sync_fails`), writes fail with ENOSPC after `writes_left` have
 * succeeded. A flush or close of a stream whose buffer holds something is one such write. Not counted are writes that stdio makes
 * because its buffer is full, or at the end of the process.
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
 * conformance/nodes/disks/state_file.py has the same offsets. */
struct state {
    uint64_t end;           /* 0: where the next record goes */
    uint32_t slow;          /* 8: milliseconds by which each sync is delayed */
    uint32_t sync_fails;    /* 12: whether syncs fail */
    int64_t writes_left;    /* 16: writes that succeed before all fail; below 0: no limit */
    uint64_t slowed;        /* 24: syncs that were delayed */
    uint64_t failed;        /* 32: syncs that failed */
    uint64_t refused;       /* 40: writes that failed */
    uint32_t records;       /* 48: whether there is a log */
    uint32_t whole_device;  /* 52: whether everything on the device of `data` counts as below it */
    uint32_t synchronous;   /* 56: whether any file was opened with O_SYNC or O_DSYNC */
    uint32_t prepared;      /* 60: the lock: 0 not initialised, 1 being initialised, 2 ready */
    pthread_mutex_t lock;   /* 64 */
    char unobserved[512] __attribute__((aligned(128))); /* 128: the first thing that was not observed, in words */
};
_Static_assert(offsetof(struct state, prepared) == 60 && offsetof(struct state, unobserved) == 128, "as in state_file.py");
#define TABLE_AT 4096u
#define TABLE_SIZE (1u << 21)
#define LOG_AT (TABLE_AT + TABLE_SIZE * 16u)
#define STATE_SIZE (1ull << 36)
#define BLOCK 4096u

/* What is known about an inode, in a hash table by its number. */
struct inode_slot {
    uint64_t ino;
    uint64_t known; /* OTHER, OWN, UNNAMED, or (as OWN) the offset of the record of its last sync */
};
enum { OTHER, OWN, UNNAMED }; /* not below `data`; below it and never synced; was below it and has lost its last name */

enum op { CREATE = 1, RENAME, LINK, UNLINK, SYNC, DATASYNC, SYNC_DIRECTORY, SYNC_ALL, EXCHANGE };
enum status { BEGUN = 1, DONE, FAILED };

/* A record is followed by its two names, each after its length (2 octets), and for the sync of a file, from the next
 * multiple of 8 on, by a hash for each block and then the blocks whose hash differs from that in the record at `base`. */
struct record {
    uint32_t size; /* with everything that follows, a multiple of 8 */
    uint16_t op, status;
    uint64_t ino, dir, to_dir; /* numbers of inodes; 0: a directory not below `data` */
    uint32_t mode, uid, gid, blocks;
    uint64_t length, base;
};
_Static_assert(sizeof(struct record) == 64, "as in state_file.py");

/* A name in a directory. */
struct dir_entry {
    int below_data; /* the directory is, and the other fields are set */
    uint64_t dir;
    char name[NAME_MAX + 1];
};

extern struct state *state HIDDEN;
extern __thread int in_layer HIDDEN; /* this thread is in the layer: its calls are not logged */
extern int preloaded_by_environment HIDDEN, in_chroot HIDDEN;
extern char library[PATH_MAX] HIDDEN;
extern dev_t device HIDDEN;

HIDDEN void lock_state(void);
HIDDEN void unlock_state(void);
HIDDEN void note_unobserved(const char *what, const char *which);
HIDDEN struct inode_slot *slot_of(uint64_t ino);
HIDDEN void set_known(uint64_t ino, uint64_t known);
HIDDEN int is_below_data(const struct stat *seen);
HIDDEN int fd_is_below_data(int fd, struct stat *seen);
HIDDEN void find_entry(int at, const char *path, int follow, struct dir_entry *entry);
HIDDEN struct record *begin_record(enum op op, const struct dir_entry *from, const struct dir_entry *to, const char *target);
HIDDEN void set_inode(struct record *record, const struct stat *seen);
HIDDEN void finish_record(struct record *record, int done);
HIDDEN int log_sync(int fd, enum op op);
HIDDEN int sync_must_fail(int fd);

/* Declare `real`, the function of this name that this one replaces. */
#define REAL(name, type, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real)                                                                                                         \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
