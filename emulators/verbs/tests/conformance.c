// conformance.c: calls every part of libibverbs that the project uses, right and wrong, and prints
// what happened, in words that do not depend on the device. "conformance" runs all tests, whose
// answers are in conformance.txt; "conformance NAME..." some, also those of faults.
#include "harness.h"

#include <stdio.h>

static const struct test tests[] = {
    {"states", test_states},     {"transfers", test_transfers},
    {"errors", test_errors},     {"queues", test_queues},
    {"srq", test_srq},           {"ud", test_ud},
    {"xrc", test_xrc},           {"memory", test_memory},
    {"extended", test_extended},
};
static const struct test faults[] = {
    {"offers", fault_offers},
    {"registrations", fault_registrations},
    {"messages", fault_messages},
    {"datagrams", fault_datagrams},
    {"reuse", fault_reuse},
    {"fences", fault_fences},
    {"unmapped", fault_unmapped},
    {"remapped", fault_remapped},
    {"events", fault_events},
    {"alternate", fault_alternate},
    {"migration", fault_migration},
    {"device", fault_device},
    {"paths", fault_paths},
    {"footprint", fault_footprint},
    {"pages", fault_pages},
    {"limits", fault_limits},
    {"misuse", fault_misuse},
    {"failed", fault_failed},
    {"changes", fault_changes},
    {"lids", fault_lids},
    {"odp", fault_odp},
    {"receives", fault_receives},
    {"kinds", fault_kinds},
    {"calls", fault_calls},
    {"qkey", fault_qkey},
};

int main(int argc, char **argv) {
    // Processes first: a process that has devices open does not fork.
    if (argc < 2 || is_named("processes", argv)) test_processes();
    open_devices();
    run_tests(tests, sizeof tests / sizeof *tests, true, argv);
    run_tests(faults, sizeof faults / sizeof *faults, false, argv);
    for (size_t i = 0; i < 2; i++) {
        must(ibv_dealloc_pd(devices[i].pd) == 0, "ibv_dealloc_pd: nothing is left");
        must(ibv_close_device(devices[i].context) == 0, "ibv_close_device");
    }
    printf("done\n");
    return 0;
}
