/* Loaded before libc: counts, fails, kills at or records every call that changes a file under one folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COUNT, FAIL, FAIL_FROM, KILL };

static char under[PATH_MAX];
static int mode, at, code, seen, journal = -1;

void fault_arm(const char *folder, int new_mode, int new_at, int new_code) {
    snprintf(under, sizeof under, "%s", folder);
    mode = new_mode, at = new_at, code = new_code, seen = 0;
}

int fault_seen(void) { return seen; }

static void put(const void *data, size_t size) { syscall(SYS_write, journal, data, size); }

static void note(char operation, const char *path, const char *other, int64_t offset, const void *data, size_t size) {
    if (journal < 0) return;
    uint32_t first = strlen(path), second = other ? strlen(other) : 0;
    uint64_t length = size;
    put(&operation, 1), put(&first, 4), put(&second, 4), put(&offset, 8), put(&length, 8);
    put(path, first), put(other ? other : "", second), put(data, size);
}

void fault_record(const char *path) {
    if (journal >= 0) close(journal);
    journal = path ? syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
}

void fault_mark(const char *text) { note('M', text, NULL, 0, "", 0); }

static int inside(const char *path) {
    char whole[PATH_MAX];
    if (!under[0]) return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, sizeof whole)) return 0;
        strncat(whole, "/", sizeof whole - strlen(whole) - 1);
        strncat(whole, path, sizeof whole - strlen(whole) - 1);
        path = whole;
    }
    return !strncmp(path, under, strlen(under));
}

static int named(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0 && inside(path);
}

/* Whether this call is to fail; it may be the last that the process makes. */
static int fails(void) {
    seen++;
    if ((mode == FAIL && seen == at) || (mode == FAIL_FROM && seen >= at)) return errno = code, 1;
    if (mode == KILL && seen == at) kill(getpid(), SIGKILL);
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(const char *path, int flags, mode_t permissions) {
    int changes = flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR);
    if (!changes || !inside(path)) return syscall(SYS_openat, AT_FDCWD, path, flags, permissions);
    if (fails()) return -1;
    struct stat before;
    int existed = !stat(path, &before);
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, permissions);
    if (fd >= 0 && !existed) note('o', path, NULL, 0, "", 0);
    if (fd >= 0 && existed && (flags & O_TRUNC)) note('t', path, NULL, 0, "", 0);
    return fd;
}

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        return opened(path, flags, permissions);                                \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    if (!named(fd, path)) return syscall(SYS_write, fd, data, size);
    if ((mode == FAIL_FROM || mode == KILL) && seen + 1 == at && size > 1) {
        /* A disk that fills up takes the first half, and so may a kill. */
        seen++;
        ssize_t half = syscall(SYS_write, fd, data, size / 2);
        if (mode == KILL) kill(getpid(), SIGKILL);
        return half;
    }
    if (fails()) return -1;
    struct stat before;
    fstat(fd, &before);
    int appends = fcntl(fd, F_GETFL) & O_APPEND;
    int64_t offset = appends ? before.st_size : lseek(fd, 0, SEEK_CUR);
    ssize_t written = syscall(SYS_write, fd, data, size);
    if (written > 0) note('w', path, NULL, offset, data, written);
    return written;
}

/* As SQLite writes. */
#define WRITE_AT(name, offset_type)                                            \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) {  \
        char path[PATH_MAX];                                                   \
        if (!named(fd, path)) return syscall(SYS_pwrite64, fd, data, size, offset); \
        if (fails()) return -1;                                                \
        ssize_t written = syscall(SYS_pwrite64, fd, data, size, offset);       \
        if (written > 0) note('w', path, NULL, offset, data, written);         \
        return written;                                                        \
    }
WRITE_AT(pwrite, off_t)
WRITE_AT(pwrite64, off64_t)

#define ON_FILE(name, letter, arguments, call, offset)     \
    int name arguments {                                   \
        char path[PATH_MAX];                               \
        if (!named(fd, path)) return call;                 \
        if (fails()) return -1;                            \
        int result = call;                                 \
        if (!result) note(letter, path, NULL, offset, "", 0); \
        return result;                                     \
    }
ON_FILE(fsync, 's', (int fd), syscall(SYS_fsync, fd), 0)
ON_FILE(fdatasync, 's', (int fd), syscall(SYS_fdatasync, fd), 0)
ON_FILE(ftruncate, 't', (int fd, off_t size), syscall(SYS_ftruncate, fd, size), size)
ON_FILE(ftruncate64, 't', (int fd, off64_t size), syscall(SYS_ftruncate, fd, size), size)

/* Letting go of a lock needs no disk: it does not fail. */
int flock(int fd, int how) {
    char path[PATH_MAX];
    if ((how & LOCK_UN) || !named(fd, path)) return syscall(SYS_flock, fd, how);
    if (fails()) return -1;
    return syscall(SYS_flock, fd, how);
}

#define ON_PATH(name, letter, arguments, call, other)    \
    int name arguments {                                 \
        if (!inside(path)) return call;                  \
        if (fails()) return -1;                          \
        int result = call;                               \
        if (!result) note(letter, path, other, 0, "", 0); \
        return result;                                   \
    }
ON_PATH(rename, 'r', (const char *path, const char *to), REAL(rename)(path, to), to)
ON_PATH(unlink, 'u', (const char *path), REAL(unlink)(path), NULL)
ON_PATH(rmdir, 'd', (const char *path), REAL(rmdir)(path), NULL)
ON_PATH(mkdir, 'm', (const char *path, mode_t permissions), REAL(mkdir)(path, permissions), NULL)
ON_PATH(chmod, 'c', (const char *path, mode_t permissions), REAL(chmod)(path, permissions), NULL)
