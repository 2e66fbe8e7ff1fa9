// NUMA nodes: the segment of a rank whose cores are of one node is asked for from there, whole and
// no other; that of other ranks is not.
// NP: 1 2 3 4
// SEGMENTS: fast large
// DEVICES: yes
// ENV: GASNET_NUMA_LIBRARY=libnuma_standin.so.1
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* CPU sets */
#endif
#include <dlfcn.h>
#include <sched.h>

#include "check.h"

/* Of emulators/devices/numa.c: even cores are on node 0, odd ones on node 1. */
typedef int bound_function(uintptr_t *address, size_t *bytes, int *mode, unsigned long *mask);

/* The first core is kept where one is wanted. Returns it, or -1 if several remain. */
static int bind_to_core(int one) {
    cpu_set_t all, set;
    int cpu;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    for (cpu = 0; !CPU_ISSET(cpu, &all); cpu++) continue;
    if (!one && CPU_COUNT(&all) > 1) return -1;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    return cpu;
}

int main(int argc, char **argv) {
    bound_function *bound;
    uintptr_t address;
    size_t bytes;
    unsigned long mask;
    int mode;
    cpu_set_t all;
    test_init("numa", &argc, &argv);
    CPU_ZERO(&all);
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    int spans = CPU_COUNT(&all) > 1 && CPU_ISSET(0, &all) && CPU_ISSET(1, &all);
    /* Odd ranks keep all of their cores. */
    int core = bind_to_core(me % 2 == 0);
    PHASE("attach");
    test_attach((me + 1) * (uintptr_t)GASNET_PAGESIZE);
    void *library = dlopen("libnuma_standin.so.1", RTLD_NOW);
    REQUIRE(library != NULL);
    void *symbol = dlsym(library, "standin_bound");
    REQUIRE(symbol != NULL);
    memcpy(&bound, &symbol, sizeof bound);
    int calls = bound(&address, &bytes, &mode, &mask);
    if (core >= 0) {
        CHECKF(calls == 1, "%d calls", calls);
        CHECK((void *)address == gex_Segment_QueryAddr(segment) && bytes == gex_Segment_QuerySize(segment));
        CHECK(mode == 1 && mask == 1ul << core % 2);
    } else if (spans) {
        CHECKF(calls == 0, "%d calls", calls);
    }
    PHASE("the memory is usual memory");
    pattern_fill(gex_Segment_QueryAddr(segment), bytes = (me + 1) * (uintptr_t)GASNET_PAGESIZE, me);
    barrier();
    CHECK_PATTERN(gex_Segment_QueryAddr(segment), bytes, me);
    return test_finish();
}
