/* README-tools, "Timers" and "Sleep". */
#include <gasnet_tools.h>

#include <sys/time.h>
#include <time.h>

#include "tools_check.h"

static volatile sig_atomic_t alarms;
static void on_alarm(int sig) { alarms = 1; }

static int bad_rate(void) {
    setenv("GASNET_TSC_RATE", "3GHz", 1);
    return gasnett_ticks_to_ns(1) == 0;
}
/* Measured by main; not exact where another process runs between the two readings. */
static double true_hz;
static uint64_t set_rate(double factor) {
    const uint64_t hz = (uint64_t)(factor * true_hz);
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)hz);
    setenv("GASNET_TSC_RATE", text, 1);
    return hz;
}
static int converts(uint64_t hz) {
    const uint64_t second = gasnett_ticks_to_ns(hz);
    return second > 999999990 && second < 1000000010 ? 0 : 1;
}
static int given_rate(void) {
    setenv("GASNET_TSC_VERBOSE", "1", 1);
    setenv("GASNET_TSC_RATE_HARD_TOLERANCE", "0.5", 1);
    return converts(set_rate(1));
}
static int wrong_rate(void) { return converts(set_rate(3)); }
static int wrong_rate_allowed(void) {
    setenv("GASNET_TSC_RATE_HARD_TOLERANCE", "1", 1);
    return converts(set_rate(0.5));
}
static void measure_rate(void) {
    struct timespec from, to;
    gasnett_tick_t start = gasnett_ticks_now();
    clock_gettime(CLOCK_MONOTONIC, &from);
    gasnett_nsleep(300 * 1000000ull);
    clock_gettime(CLOCK_MONOTONIC, &to);
    true_hz = (double)(gasnett_ticks_now() - start) /
              ((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
}
static int cpuinfo_rate(void) {
    setenv("GASNET_TSC_RATE", "cpuinfo", 1);
    return gasnett_ticks_to_ns(1000000) > 0 ? 0 : 1;
}
static int hard_tolerance(void) {
    setenv("GASNET_TSC_RATE_TOLERANCE", "1e-30", 1);
    setenv("GASNET_TSC_RATE_HARD_TOLERANCE", "1e-30", 1);
    return gasnett_ticks_to_ns(1000000) > 0 ? 0 : 1;
}

int main(void) {
    gasnett_tick_t last, now, min = GASNETT_TICK_MIN, max = GASNETT_TICK_MAX;

    /* Before the first conversion in this process, because the rate is read once. */
    (void)gasnett_ticks_now();
    int uses_tsc = gasnetti_tick_source == 1;
    if (uses_tsc) {
        in_child(bad_rate);
        CHECK(child_killed(SIGABRT) && child_said("GASNET_TSC_RATE='3GHz'"));
        measure_rate();
        in_child(given_rate);
        CHECK(child_exited(0) && child_said(" ticks per second"));
        in_child(wrong_rate);
        CHECK(child_killed(SIGABRT) && child_said("GASNET_TSC_RATE_HARD_TOLERANCE"));
        in_child(wrong_rate_allowed);
        CHECK(child_exited(0) && child_said("GASNET_TSC_RATE_TOLERANCE"));
        in_child(cpuinfo_rate);
        CHECK(child_exited(0) || child_said("states no rate") || child_said("the monotonic clock"));
        in_child(hard_tolerance);
        CHECK(child_killed(SIGABRT) && child_said("GASNET_TSC_RATE_HARD_TOLERANCE"));
    }

    CHECK(sizeof(gasnett_tick_t) == 8);
    CHECK(min < max);
    gasnett_tick_t start = last = gasnett_ticks_now();
    CHECK(start > min && start < max);
    for (int i = 0; i < 100000; i++) {
        now = gasnett_ticks_now();
        CHECK(now >= last);
        last = now;
    }
    CHECK((gasnett_ticks_now)() >= last);
    CHECK(gasnett_ticks_to_ns(0) == 0 && gasnett_ticks_to_us(0) == 0);
    CHECK(gasnett_tick_granularityus() > 0 && gasnett_tick_overheadus() > 0);

    /* Ticks and the wall clock agree over a sleep of 300 ms: within 10 %, since another process may
     * run in between. */
    uint64_t wall = gasnett_gettimeofday_us();
    start = gasnett_ticks_now();
    CHECK(gasnett_nsleep(300 * 1000000ull) == 0);
    now = gasnett_ticks_now();
    wall = gasnett_gettimeofday_us() - wall;
    double us = (double)gasnett_ticks_to_us(now - start);
    CHECK(us >= 299000);
    CHECK(us < 1.1 * (double)wall && (double)wall < 1.1 * us);
    CHECK(gasnett_ticks_to_ns(now - start) / 1000 == gasnett_ticks_to_us(now - start));
    CHECK(gasnett_ticks_to_us(now) - gasnett_ticks_to_us(start) <= gasnett_ticks_to_us(now - start) + 1);

    /* Sleep: zero returns at once, a signal ends it early with EINTR. */
    CHECK(gasnett_nsleep(0) == 0);
    struct itimerval timer;
    gasnett_reghandler(SIGALRM, on_alarm);
    memset(&timer, 0, sizeof(timer));
    timer.it_value.tv_usec = 50000;
    setitimer(ITIMER_REAL, &timer, NULL);
    errno = 0;
    CHECK(gasnett_nsleep(60 * 1000000000ull) != 0);
    CHECK(errno == EINTR && alarms);
    return test_result("tools_timers");
}
