/* Fails one call of the C library: the n-th that reads or writes below a folder, or starts a process.
 *
 * benchmarks/attacks/io_failures.py compiles it and has it loaded before all else (LD_PRELOAD). The count is
 * kept in a file that all processes share, IO_FAILURES_STATE; the folder is IO_FAILURES_FOLDER.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct state {
    long calls, first, last; /* so far; the range of those that fail, from 1, or 0 for none */
    char what[256];          /* the first that failed */
};

static struct state *state;
static const char *folder;
static size_t length;

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("IO_FAILURES_STATE");
    folder = getenv("IO_FAILURES_FOLDER");
    if (!name || !folder) return;
    length = strlen(folder);
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (memory != MAP_FAILED) state = memory;
}

/* Whether this call is to fail, with errno set. */
static int fails(const char *what, const char *path, int error) {
    if (!state || !state->first) return 0;
    long call = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
    if (call < state->first || call > state->last) return 0;
    if (call == state->first) snprintf(state->what, sizeof state->what, "%s %s", what, path);
    errno = error;
    return 1;
}

static int path_fails(const char *what, int at, const char *path, int error) {
    char whole[2 * PATH_MAX], where[64];
    if (!state || !state->first || !path) return 0;
    if (*path != '/') {
        if (at == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX)) return 0;
        } else {
            snprintf(where, sizeof where, "/proc/self/fd/%d", at);
            ssize_t size = readlink(where, whole, PATH_MAX - 1);
            if (size < 0) return 0;
            whole[size] = 0;
        }
        strcat(whole, "/");
        strncat(whole, path, PATH_MAX - 1);
        path = whole;
    }
    if (strstr(path, "/../")) return 0; /* out of the folder: Python's own files, as numba finds them */
    return !strncmp(path, folder, length) && fails(what, path + length, error);
}

/* The paths of descriptors that `dup2` made: a confined decoder has no others and may read no link. */
static char known[16][PATH_MAX];

/* Find the path of a descriptor; whether there is one. */
static int path_of(int file, char *path) {
    char where[64];
    snprintf(where, sizeof where, "/proc/self/fd/%d", file);
    ssize_t size = readlink(where, path, PATH_MAX - 1);
    if (size >= 0)
        path[size] = 0;
    else if (errno == EPERM && file >= 0 && file < 16)
        strcpy(path, known[file]);
    else
        return 0;
    return *path == '/'; /* and no pipe or socket */
}

static int file_fails(const char *what, int file, int error) {
    char path[PATH_MAX];
    if (!state || !state->first || !path_of(file, path)) return 0;
    return path_fails(what, AT_FDCWD, path, error);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                \
    int name(const char *path, int flags, ...) {                                                  \
        va_list list;                                                                             \
        va_start(list, flags);                                                                    \
        mode_t mode = va_arg(list, mode_t);                                                       \
        va_end(list);                                                                             \
        return path_fails("open", AT_FDCWD, path, EIO) ? -1 : REAL(name)(path, flags, mode);      \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                              \
    int name(int at, const char *path, int flags, ...) {                                          \
        va_list list;                                                                             \
        va_start(list, flags);                                                                    \
        mode_t mode = va_arg(list, mode_t);                                                       \
        va_end(list);                                                                             \
        return path_fails("open", at, path, EIO) ? -1 : REAL(name)(at, path, flags, mode);        \
    }
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode) {
    return path_fails("open", AT_FDCWD, path, EIO) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return path_fails("open", AT_FDCWD, path, EIO) ? NULL : REAL(fopen64)(path, mode);
}

DIR *opendir(const char *path) {
    return path_fails("list", AT_FDCWD, path, EIO) ? NULL : REAL(opendir)(path);
}

#define ON_FILE(type, name, what, error, parameters, arguments)                                   \
    type name parameters {                                                                        \
        return file_fails(what, file, error) ? -1 : REAL(name) arguments;                         \
    }
ON_FILE(ssize_t, read, "read", EIO, (int file, void *to, size_t size), (file, to, size))
ON_FILE(ssize_t, pread, "read", EIO, (int file, void *to, size_t size, off_t at),
        (file, to, size, at))
ON_FILE(ssize_t, pread64, "read", EIO, (int file, void *to, size_t size, off64_t at),
        (file, to, size, at))
ON_FILE(ssize_t, preadv2, "read", EIO,
        (int file, const struct iovec *to, int count, off_t at, int flags),
        (file, to, count, at, flags))
ON_FILE(ssize_t, preadv64v2, "read", EIO,
        (int file, const struct iovec *to, int count, off64_t at, int flags),
        (file, to, count, at, flags))
ON_FILE(ssize_t, write, "write", ENOSPC, (int file, const void *from, size_t size),
        (file, from, size))
ON_FILE(ssize_t, pwrite, "write", ENOSPC, (int file, const void *from, size_t size, off_t at),
        (file, from, size, at))
ON_FILE(ssize_t, pwrite64, "write", ENOSPC, (int file, const void *from, size_t size, off64_t at),
        (file, from, size, at))
ON_FILE(off_t, lseek, "seek", EIO, (int file, off_t at, int from), (file, at, from))
ON_FILE(off64_t, lseek64, "seek", EIO, (int file, off64_t at, int from), (file, at, from))
ON_FILE(int, ftruncate, "truncate", EIO, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, "truncate", EIO, (int file, off64_t size), (file, size))
ON_FILE(int, fsync, "sync", EIO, (int file), (file))
ON_FILE(int, fdatasync, "sync", EIO, (int file), (file))
ON_FILE(int, flock, "lock", ENOLCK, (int file, int operation), (file, operation))
ON_FILE(int, fchmod, "mode", EPERM, (int file, mode_t mode), (file, mode))

int dup2(int from, int to) {
    int error = errno, made = REAL(dup2)(from, to);
    if (state && made >= 0 && made < 16 && !path_of(made, known[made])) *known[made] = 0;
    if (made >= 0) errno = error;
    return made;
}

int rename(const char *from, const char *to) {
    return path_fails("rename", AT_FDCWD, to, EIO) ? -1 : REAL(rename)(from, to);
}

int renameat(int at, const char *from, int there, const char *to) {
    return path_fails("rename", there, to, EIO) ? -1 : REAL(renameat)(at, from, there, to);
}

int link(const char *from, const char *to) {
    return path_fails("link", AT_FDCWD, to, EIO) ? -1 : REAL(link)(from, to);
}

int unlink(const char *path) {
    return path_fails("unlink", AT_FDCWD, path, EIO) ? -1 : REAL(unlink)(path);
}

int unlinkat(int at, const char *path, int flags) {
    return path_fails("unlink", at, path, EIO) ? -1 : REAL(unlinkat)(at, path, flags);
}

int rmdir(const char *path) {
    return path_fails("unlink", AT_FDCWD, path, EIO) ? -1 : REAL(rmdir)(path);
}

int mkdir(const char *path, mode_t mode) {
    return path_fails("mkdir", AT_FDCWD, path, EIO) ? -1 : REAL(mkdir)(path, mode);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
    if (fails("start", "a process", EAGAIN)) return EAGAIN;
    return REAL(posix_spawn)(pid, path, actions, attributes, words, variables);
}

pid_t fork(void) { return fails("start", "a process", EAGAIN) ? -1 : REAL(fork)(); }

/* A function that calls vfork may not return in the child, so it is a fork here. */
pid_t vfork(void) { return fork(); }
