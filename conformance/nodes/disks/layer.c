/*
 * Comes between a program and its C library (LD_PRELOAD), for what lies below the directory LAYER_DATA:
 *
 * - whatever fsync or fdatasync has made durable is copied to LAYER_STABLE (where that is set): a file with its content as of then, a
 *   directory with the names in it. After a power cut that is all there is: writes, renames and deletions that were not
 *   synced are gone.
 * - while the file LAYER_SLOW names a number of milliseconds, every such call takes so much longer, and adds a line to
 *   LAYER_SLOW.log: the proof that the program met the slow disk.
 *
 * Not seen: sync, syncfs, sync_file_range, msync and O_SYNC; a program that relies on them would lose too much here.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH (PATH_MAX + 64)

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void find(void)
{
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

/* Make every directory above a path. */
static void make_parents(const char *path)
{
    char part[PATH];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(part, 0777);
        *at = '/';
    }
}

/* Whether an open file lies below LAYER_DATA: `from` gets its path, `to` that below LAYER_STABLE. */
static int is_ours(int fd, char *from, char *to)
{
    char link[64];
    const char *data = getenv("LAYER_DATA"), *stable = getenv("LAYER_STABLE");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = data ? readlink(link, from, PATH_MAX) : -1;
    if (length < 0)
        return 0;
    from[length] = 0;
    size_t below = strlen(data);
    if (strncmp(from, data, below) != 0 || (from[below] != '/' && from[below] != 0))
        return 0;
    snprintf(to, PATH, "%s%s", stable ? stable : "", from + below);
    return 1;
}

static int copy_file(const char *from, const char *to)
{
    char part[PATH + 16], buffer[65536];
    make_parents(to);
    snprintf(part, sizeof part, "%s.layer-%d", to, (int)getpid());
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t got = in < 0 || out < 0 ? -1 : 1;
    while (got > 0 && (got = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)got) != got)
            got = -1;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return got < 0 ? -1 : rename(part, to);
}

/* Forget the names that are gone, and note the new ones: what is in them was not synced. */
static void copy_names(const char *from, const char *to)
{
    char path[2 * PATH];
    struct stat seen;
    struct dirent *entry;
    make_parents(to);
    mkdir(to, 0777);
    DIR *directory = opendir(to);
    while (directory && (entry = readdir(directory))) {
        snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
        if (lstat(path, &seen) < 0 && errno == ENOENT) {
            snprintf(path, sizeof path, "%s/%s", to, entry->d_name);
            remove(path);
        }
    }
    if (directory)
        closedir(directory);
    directory = opendir(from);
    while (directory && (entry = readdir(directory))) {
        snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
        if (lstat(path, &seen) < 0 || entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", to, entry->d_name);
        if (S_ISDIR(seen.st_mode))
            mkdir(path, 0777);
        else if (S_ISREG(seen.st_mode))
            close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    }
    if (directory)
        closedir(directory);
}

static void be_slow(void)
{
    const char *slow = getenv("LAYER_SLOW");
    char text[32] = "", log[PATH];
    int fd = slow ? open(slow, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    long milliseconds = length > 0 ? atol(text) : 0;
    if (milliseconds <= 0)
        return;
    snprintf(log, sizeof log, "%s.log", slow);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
        if (write(fd, "sync\n", 5) != 5)
            abort();
        close(fd);
    }
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

static int synced(int fd, int result)
{
    char from[PATH], to[PATH];
    struct stat seen;
    if (result < 0 || !is_ours(fd, from, to))
        return result;
    be_slow();
    if (!getenv("LAYER_STABLE") || fstat(fd, &seen) < 0)
        return result;
    if (S_ISDIR(seen.st_mode))
        copy_names(from, to);
    else if (copy_file(from, to) < 0)
        abort(); /* a layer that cannot keep what was synced must not say that it was */
    return result;
}

int fsync(int fd)
{
    return synced(fd, real_fsync(fd));
}

int fdatasync(int fd)
{
    return synced(fd, real_fdatasync(fd));
}
