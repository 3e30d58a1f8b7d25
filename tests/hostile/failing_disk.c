// File operations that fail, for a process that is started with this library before all others
// (LD_PRELOAD). Only operations on files below one folder count, from `fail_at` on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Way { FULL, BROKEN, SHORT, UNSYNCED };        // as in failing_disk.py
enum Kind { READ, WRITE, SYNC, MAKE };             // what an operation does

static char folder[PATH_MAX];
static enum Way way;
static long fatal;
static atomic_long seen;

// From the operation of this number on (from 1) the disk is full, or that operation fails. 0: none does.
void fail_at(const char* below, int how, long number) {
    strncpy(folder, below, sizeof folder - 1);
    way = (enum Way)how;
    fatal = number;
    atomic_store(&seen, 0);
}

// Operations that have counted.
long operations(void) { return atomic_load(&seen); }

static int is_below(const char* path) {
    const size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int is_open_below(int fd) {
    char link[64], path[PATH_MAX];
    if (!*folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int is_named_below(int at, const char* path) {
    if (!*folder || !path) return 0;
    if (path[0] == '/') return is_below(path);
    if (at != AT_FDCWD) return is_open_below(at);
    char here[PATH_MAX];
    return getcwd(here, sizeof here) && is_below(here);
}

static int counts(enum Kind kind) {
    return way == BROKEN || (way == FULL && kind != READ) || (way == SHORT && kind == WRITE) ||
           (way == UNSYNCED && kind == SYNC);
}

// Whether an operation is the one that fails.
static int is_due(enum Kind kind) {
    if (!counts(kind)) return 0;
    const long number = atomic_fetch_add(&seen, 1) + 1;
    return fatal && (way == FULL ? number >= fatal : number == fatal);
}

static int refused(enum Kind kind) {
    if (!is_due(kind)) return 0;
    errno = way == FULL ? ENOSPC : EIO;
    return 1;
}

#define REAL(type, name, ...)                                      \
    static type (*real)(__VA_ARGS__);                              \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define OPENING(name)                                                                      \
    int name(const char* path, int flags, ...) {                                           \
        REAL(int, name, const char*, int, ...);                                            \
        va_list more;                                                                      \
        va_start(more, flags);                                                             \
        const mode_t mode = va_arg(more, mode_t);                                          \
        va_end(more);                                                                      \
        if (is_named_below(AT_FDCWD, path) && refused(flags & O_CREAT ? MAKE : READ)) return -1; \
        return real(path, flags, mode);                                                    \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                                   \
    int name(int at, const char* path, int flags, ...) {                                   \
        REAL(int, name, int, const char*, int, ...);                                       \
        va_list more;                                                                      \
        va_start(more, flags);                                                             \
        const mode_t mode = va_arg(more, mode_t);                                          \
        va_end(more);                                                                      \
        if (is_named_below(at, path) && refused(flags & O_CREAT ? MAKE : READ)) return -1; \
        return real(at, path, flags, mode);                                                \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

#define MOVING(name, kind, constant)                                               \
    ssize_t name(int fd, constant void* data, size_t size) {                       \
        REAL(ssize_t, name, int, constant void*, size_t);                          \
        if (is_open_below(fd)) {                                                   \
            if (way == SHORT) size = is_due(kind) && size > 1 ? size / 2 : size;   \
            else if (refused(kind)) return -1;                                     \
        }                                                                          \
        return real(fd, data, size);                                               \
    }
MOVING(read, READ, )
MOVING(write, WRITE, const)

#define MOVING_AT(name, kind, constant, offset_t)                                  \
    ssize_t name(int fd, constant void* data, size_t size, offset_t at) {          \
        REAL(ssize_t, name, int, constant void*, size_t, offset_t);                \
        if (is_open_below(fd)) {                                                   \
            if (way == SHORT) size = is_due(kind) && size > 1 ? size / 2 : size;   \
            else if (refused(kind)) return -1;                                     \
        }                                                                          \
        return real(fd, data, size, at);                                           \
    }
MOVING_AT(pread, READ, , off_t)
MOVING_AT(pread64, READ, , off64_t)
MOVING_AT(pwrite, WRITE, const, off_t)
MOVING_AT(pwrite64, WRITE, const, off64_t)

#define MOVING_MANY(name, kind)                                                    \
    ssize_t name(int fd, const struct iovec* parts, int count, off64_t at) {       \
        REAL(ssize_t, name, int, const struct iovec*, int, off64_t);               \
        if (way != SHORT && is_open_below(fd) && refused(kind)) return -1;         \
        return real(fd, parts, count, at);                                         \
    }
MOVING_MANY(preadv, READ)
MOVING_MANY(preadv64, READ)

ssize_t preadv64v2(int fd, const struct iovec* parts, int count, off64_t at, int flags) {
    REAL(ssize_t, preadv64v2, int, const struct iovec*, int, off64_t, int);
    if (way != SHORT && is_open_below(fd) && refused(READ)) return -1;
    return real(fd, parts, count, at, flags);
}

#define SYNCING(name)                                               \
    int name(int fd) {                                              \
        REAL(int, name, int);                                       \
        return is_open_below(fd) && refused(SYNC) ? -1 : real(fd);  \
    }
SYNCING(fsync)
SYNCING(fdatasync)

#define RESIZING(name, offset_t)                                            \
    int name(int fd, offset_t size) {                                       \
        REAL(int, name, int, offset_t);                                     \
        return is_open_below(fd) && refused(MAKE) ? -1 : real(fd, size);    \
    }
RESIZING(ftruncate, off_t)
RESIZING(ftruncate64, off64_t)

// These give the error instead of setting it.
#define RESERVING(name, offset_t)                                                      \
    int name(int fd, offset_t at, offset_t size) {                                     \
        REAL(int, name, int, offset_t, offset_t);                                      \
        return is_open_below(fd) && refused(MAKE) ? errno : real(fd, at, size);        \
    }
RESERVING(posix_fallocate, off_t)
RESERVING(posix_fallocate64, off64_t)

int rename(const char* from, const char* to) {
    REAL(int, rename, const char*, const char*);
    return is_named_below(AT_FDCWD, to) && refused(MAKE) ? -1 : real(from, to);
}

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
    REAL(int, renameat2, int, const char*, int, const char*, unsigned);
    return is_named_below(to_at, to) && refused(MAKE) ? -1 : real(from_at, from, to_at, to, flags);
}

int link(const char* from, const char* to) {
    REAL(int, link, const char*, const char*);
    return is_named_below(AT_FDCWD, to) && refused(MAKE) ? -1 : real(from, to);
}

int mkdir(const char* path, mode_t mode) {
    REAL(int, mkdir, const char*, mode_t);
    return is_named_below(AT_FDCWD, path) && refused(MAKE) ? -1 : real(path, mode);
}
