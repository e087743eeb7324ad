/* A clock of the day that jumps by years whenever it is read; that of time elapsed stays as it is.
 *
 * tests/cli/test_faults_of_time.py compiles it and has it loaded before all else (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static long jump(void) {
    static atomic_uint reads;
    static const long years[] = {0, 30, -20, 60, -50, 1}; /* 50 years ago files had no dates in zips */
    return 31556952L * years[atomic_fetch_add(&reads, 1) % 6];
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(now, zone);
    if (!failed) now->tv_sec += jump();
    return failed;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
