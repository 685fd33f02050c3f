/* Replaces the calls that write: synchronous ones are logged as syncs, and any may fail as on a full disk. */
#include "layer.h"
#include <stdio_ext.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

/* Whether a write to this descriptor must fail; then count it and set errno to ENOSPC. Else use up one of `writes_left`. */
static int write_must_fail(int fd)
{
    struct stat seen;
    if (!state || in_layer || __atomic_load_n(&state->writes_left, __ATOMIC_SEQ_CST) < 0 || !fd_is_below_data(fd, &seen) ||
        !S_ISREG(seen.st_mode))
        return 0;
    int64_t left = __atomic_load_n(&state->writes_left, __ATOMIC_SEQ_CST);
    while (left > 0 && !__atomic_compare_exchange_n(&state->writes_left, &left, left - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    if (left != 0)
        return 0;
    __atomic_add_fetch(&state->refused, 1, __ATOMIC_SEQ_CST);
    errno = ENOSPC;
    return 1;
}

/* Return which kind of sync a write to this descriptor with these flags is; 0 if it is none. */
static int sync_kind(int fd, int flags)
{
    if (!state || in_layer)
        return 0;
    int open = __atomic_load_n(&state->synchronous, __ATOMIC_SEQ_CST) ? fcntl(fd, F_GETFL) : 0;
    if (flags & RWF_SYNC || (open >= 0 && (open & O_SYNC) == O_SYNC))
        return SYNC;
    return flags & RWF_DSYNC || (open >= 0 && open & O_DSYNC) ? DATASYNC : 0;
}

#define WRITE(name, fd, parameters, types, arguments, flags)                                                           \
    ssize_t name parameters                                                                                            \
    {                                                                                                                  \
        REAL(name, ssize_t, types);                                                                                    \
        int kind = sync_kind(fd, flags);                                                                               \
        if (write_must_fail(fd) || (kind && sync_must_fail(fd)))                                                       \
            return -1;                                                                                                 \
        ssize_t result = real arguments;                                                                               \
        if (kind && result >= 0)                                                                                       \
            log_sync(fd, (enum op)kind);                                                                               \
        return result;                                                                                                 \
    }
#define TYPES(...) __VA_ARGS__
#define PWRITE(name)                                                                                                   \
    WRITE(name, fd, (int fd, const void *what, size_t size, off_t at), TYPES(int, const void *, size_t, off_t),        \
          (fd, what, size, at), 0)
#define PWRITEV(name)                                                                                                  \
    WRITE(name, fd, (int fd, const struct iovec *what, int count, off_t at),                                           \
          TYPES(int, const struct iovec *, int, off_t), (fd, what, count, at), 0)
#define PWRITEV2(name)                                                                                                 \
    WRITE(name, fd, (int fd, const struct iovec *what, int count, off_t at, int flags),                                \
          TYPES(int, const struct iovec *, int, off_t, int), (fd, what, count, at, flags), flags)
#define SENDFILE(name)                                                                                                 \
    WRITE(name, out, (int out, int in, off_t *from, size_t size), TYPES(int, int, off_t *, size_t),                    \
          (out, in, from, size), 0)
WRITE(write, fd, (int fd, const void *what, size_t size), TYPES(int, const void *, size_t), (fd, what, size), 0)
WRITE(writev, fd, (int fd, const struct iovec *what, int count), TYPES(int, const struct iovec *, int), (fd, what, count),
      0)
PWRITE(pwrite)
PWRITE(pwrite64)
PWRITEV(pwritev)
PWRITEV(pwritev64)
PWRITEV2(pwritev2)
PWRITEV2(pwritev64v2)
SENDFILE(sendfile)
SENDFILE(sendfile64)
WRITE(splice, to, (int from, off64_t *at, int to, off64_t *to_at, size_t size, unsigned flags),
      TYPES(int, off64_t *, int, off64_t *, size_t, unsigned), (from, at, to, to_at, size, flags), 0)
WRITE(copy_file_range, to, (int from, off64_t *at, int to, off64_t *to_at, size_t size, unsigned flags),
      TYPES(int, off64_t *, int, off64_t *, size_t, unsigned), (from, at, to, to_at, size, flags), 0)

/* Log a synchronous write of stdio's buffer, which the C library has made by itself. */
static void log_flush(int fd)
{
    int kind = sync_kind(fd, 0);
    if (kind)
        log_sync(fd, (enum op)kind);
}

/* Whether the C library must not write this stream's buffer; then set the stream's error flag and errno, as a failed write does. */
static int flush_must_fail(FILE *file)
{
    if (!file || __fpending(file) == 0 || !write_must_fail(fileno(file)))
        return 0;
    file->_flags |= _IO_ERR_SEEN;
    return 1;
}

int fflush(FILE *file)
{
    REAL(fflush, int, FILE *);
    if (flush_must_fail(file))
        return EOF;
    int result = real(file);
    if (result == 0 && file && state && !in_layer && state->synchronous)
        log_flush(fileno(file));
    return result;
}

int fclose(FILE *file)
{
    REAL(fclose, int, FILE *);
    int error = 0;
    if (file && state && !in_layer && __fpending(file) > 0 && fflush(file) != 0) {
        error = errno;
        __fpurge(file); /* else the real one writes the buffer */
    }
    int result = real(file);
    if (!error)
        return result;
    errno = error;
    return EOF;
}
