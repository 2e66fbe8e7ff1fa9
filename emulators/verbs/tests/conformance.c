// conformance.c: calls every part of libibverbs that the project uses, right and wrong, and prints
// what happened, in words that do not depend on the device. "conformance" runs all tests, whose
// answers are in conformance.txt; "conformance NAME..." some, also those of faults.
#include "harness.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} tests[] =
    {
        {"states", test_states},     {"transfers", test_transfers},
        {"errors", test_errors},     {"queues", test_queues},
        {"srq", test_srq},           {"ud", test_ud},
        {"xrc", test_xrc},           {"memory", test_memory},
        {"extended", test_extended},
},
  faults[] = {
      {"offers", fault_offers},       {"registrations", fault_registrations},
      {"messages", fault_messages},   {"datagrams", fault_datagrams},
      {"reuse", fault_reuse},         {"fences", fault_fences},
      {"unmapped", fault_unmapped},   {"remapped", fault_remapped},
      {"events", fault_events},       {"alternate", fault_alternate},
      {"migration", fault_migration}, {"device", fault_device},
      {"paths", fault_paths},         {"footprint", fault_footprint},
};

static bool named(const char *name, int argc, char **argv) {
    int i;
    for (i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    size_t i;
    // Processes first: a process that has devices open does not fork.
    if (argc < 2 || named("processes", argc, argv)) test_processes();
    open_devices();
    for (i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc < 2 || named(tests[i].name, argc, argv)) tests[i].run();
    for (i = 0; i < sizeof faults / sizeof *faults; i++)
        if (named(faults[i].name, argc, argv)) faults[i].run();
    for (i = 0; i < 2; i++) {
        must(ibv_dealloc_pd(devices[i].pd) == 0, "ibv_dealloc_pd: nothing is left");
        must(ibv_close_device(devices[i].context) == 0, "ibv_close_device");
    }
    printf("done\n");
    return 0;
}
