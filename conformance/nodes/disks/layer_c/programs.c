/* Notes what the layer cannot observe: programs that do not load it, and ways to write that bypass the C library. */
#include "layer.h"
#include <aio.h>
#include <elf.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

extern char **environ;

/* Return why an ELF file does not load the layer; NULL if it does, or if it is not an ELF file. */
static const char *elf_obstacle(const unsigned char *text, size_t size)
{
    const Elf64_Ehdr *head = (const void *)text;
    int dynamic = 0, go = 0;
    if (size < sizeof *head || memcmp(text, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (head->e_ident[EI_CLASS] != ELFCLASS64)
        return "is of another word size";
    for (int n = 0; n < head->e_phnum; n++) {
        const Elf64_Phdr *part = (const void *)(text + head->e_phoff + (size_t)n * head->e_phentsize);
        if ((const unsigned char *)(part + 1) > text + size || part->p_offset + part->p_filesz > size)
            continue;
        dynamic |= part->p_type == PT_INTERP;
        go |= part->p_type == PT_LOAD && part->p_flags & PF_W &&
              memmem(text + part->p_offset, part->p_filesz, "\xff Go buildinf:", 14) != NULL;
    }
    return !dynamic ? "is linked statically" : go ? "is a Go program" : NULL;
}

/* Return why a program, or the interpreter of a script, does not load the layer; NULL if it does. */
static const char *obstacle(int at, const char *path, int depth)
{
    const char *found = NULL;
    char interpreter[PATH_MAX];
    struct stat seen;
    struct statvfs mounted;
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) < 0 || fstatvfs(fd, &mounted) < 0 || !S_ISREG(seen.st_mode)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    int honoured = !(mounted.f_flag & ST_NOSUID);
    uid_t uid = honoured && seen.st_mode & S_ISUID ? seen.st_uid : geteuid();
    gid_t gid = honoured && seen.st_mode & S_ISGID && seen.st_mode & S_IXGRP ? seen.st_gid : getegid();
    unsigned char *text = mmap(NULL, (size_t)seen.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (text == MAP_FAILED)
        return NULL;
    if (preloaded_by_environment && (uid != getuid() || gid != getgid()))
        found = "is setuid";
    else if (depth < 4 && seen.st_size > 2 && text[0] == '#' && text[1] == '!') {
        size_t length = 0;
        while (2 + length < (size_t)seen.st_size && length < sizeof interpreter - 1 && text[2 + length] != '\n')
            length++;
        memcpy(interpreter, text + 2, length);
        interpreter[length] = 0;
        char *rest = NULL, *word = strtok_r(interpreter, " \t", &rest);
        found = word ? obstacle(AT_FDCWD, word, depth + 1) : NULL;
    } else
        found = elf_obstacle(text, (size_t)seen.st_size);
    munmap(text, (size_t)seen.st_size);
    return found;
}

/* Note it if a program that is about to be started will not load the layer. */
static void check_program(int at, const char *path, char *const *environment)
{
    int before = errno, was = in_layer;
    if (!state || !path)
        return;
    in_layer = 1;
    const char *found = obstacle(at, path, 0);
    int kept = !preloaded_by_environment;
    for (char *const *variable = environment; !kept && variable && *variable; variable++)
        kept = !strncmp(*variable, "LD_PRELOAD=", 11) && strstr(*variable, strrchr(library, '/'));
    if (!found && !kept && faccessat(at, path, X_OK, 0) == 0)
        found = "is started with a cleaned environment";
    if (!found && in_chroot && faccessat(at, path, X_OK, 0) == 0)
        found = "is started in a chroot";
    if (found)
        note_unobserved(found, path);
    in_layer = was;
    errno = before;
}

/* Do the same for a program that is searched for in PATH. */
static void check_program_in_path(const char *file, char *const *environment)
{
    char path[PATH_MAX];
    const char *from = getenv("PATH");
    if (strchr(file, '/')) {
        check_program(AT_FDCWD, file, environment);
        return;
    }
    for (from = from ? from : "/bin:/usr/bin"; *from; from += strcspn(from, ":"), from += *from == ':') {
        snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(from, ":"), from, file);
        if (access(path, X_OK) == 0) {
            check_program(AT_FDCWD, path, environment);
            return;
        }
    }
}

int execve(const char *path, char *const argv[], char *const environment[])
{
    REAL(execve, int, const char *, char *const[], char *const[]);
    check_program(AT_FDCWD, path, environment);
    return real(path, argv, environment);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int execvpe(const char *file, char *const argv[], char *const environment[])
{
    REAL(execvpe, int, const char *, char *const[], char *const[]);
    check_program_in_path(file, environment);
    return real(file, argv, environment);
}

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int fexecve(int fd, char *const argv[], char *const environment[])
{
    char path[64];
    REAL(fexecve, int, int, char *const[], char *const[]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_program(AT_FDCWD, path, environment);
    return real(fd, argv, environment);
}

int execveat(int at, const char *path, char *const argv[], char *const environment[], int flags)
{
    REAL(execveat, int, int, const char *, char *const[], char *const[], int);
    if (*path)
        check_program(at, path, environment);
    return real(at, path, argv, environment, flags);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                char *const argv[], char *const environment[])
{
    REAL(posix_spawn, int, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const[], char *const[]);
    check_program(AT_FDCWD, path, environment);
    return real(pid, path, actions, attributes, argv, environment);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const environment[])
{
    REAL(posix_spawnp, int, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const[], char *const[]);
    check_program_in_path(file, environment);
    return real(pid, file, actions, attributes, argv, environment);
}

/* Replace execl and the like: gather the words in an array, with the environment after them if the call has one. */
#define LISTED(name, run, with_environment)                                                                            \
    int name(const char *path, const char *first, ...)                                                                 \
    {                                                                                                                  \
        char *argv[4096];                                                                                              \
        size_t count = 0;                                                                                              \
        va_list rest;                                                                                                  \
        va_start(rest, first);                                                                                         \
        for (char *word = (char *)first; word && count < 4095; word = va_arg(rest, char *))                            \
            argv[count++] = word;                                                                                      \
        argv[count] = NULL;                                                                                            \
        char *const *environment = with_environment ? va_arg(rest, char *const *) : environ;                           \
        va_end(rest);                                                                                                  \
        return run(path, argv, environment);                                                                           \
    }
LISTED(execl, execve, 0)
LISTED(execle, execve, 1)
LISTED(execlp, execvpe, 0)

int chroot(const char *path)
{
    REAL(chroot, int, const char *);
    int result = real(path);
    if (result == 0)
        in_chroot = 1;
    return result;
}

/* Replace syscall(2), by which programs make calls that their C library has no function for, or bypass its functions. */
long syscall(long number, ...)
{
    long a[6];
    va_list rest;
    REAL(syscall, long, long, ...);
    va_start(rest, number);
    for (int n = 0; n < 6; n++)
        a[n] = va_arg(rest, long);
    va_end(rest);
    if (state && !in_layer)
        switch (number) {
        case SYS_fsync:
            return fsync((int)a[0]);
        case SYS_fdatasync:
            return fdatasync((int)a[0]);
        case SYS_syncfs:
            return syncfs((int)a[0]);
        case SYS_renameat2:
            return renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3], (unsigned)a[4]);
        case SYS_io_uring_setup: {
            long result = real(number, a[0], a[1]);
            if (result >= 0)
                note_unobserved("is used, around the C library", "io_uring");
            return result;
        }
        default:
            break;
        }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Replace the first functions that a program calls of liburing and libaio, which make their own system calls. */
#define AROUND(name, what)                                                                                             \
    int name(void *a, void *b, void *c, void *d)                                                                       \
    {                                                                                                                  \
        REAL(name, int, void *, void *, void *, void *);                                                               \
        if (!real) {                                                                                                   \
            errno = ENOSYS;                                                                                            \
            return -ENOSYS;                                                                                            \
        }                                                                                                              \
        if (state)                                                                                                     \
            note_unobserved("is used, around the C library", what);                                                    \
        return real(a, b, c, d);                                                                                       \
    }
AROUND(io_uring_queue_init, "io_uring")
AROUND(io_uring_queue_init_params, "io_uring")
AROUND(io_uring_queue_init_mem, "io_uring")
AROUND(io_setup, "io_setup")

int aio_fsync(int kind, struct aiocb *block)
{
    REAL(aio_fsync, int, int, struct aiocb *);
    if (state)
        note_unobserved("is called", "aio_fsync");
    return real(kind, block);
}
