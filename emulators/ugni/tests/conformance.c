// conformance.c: calls every part of the emulator of uGNI, right and wrong, and prints what
// happened. "conformance" runs all tests, whose answers are in conformance.txt; "conformance
// NAME..." some, also those of faults.
#include "harness.h"

#include <stdio.h>

static const struct test tests[] = {
    {"layout", test_layout},       {"processes", test_processes}, {"domains", test_domains}, {"checks", test_checks},
    {"transfers", test_transfers}, {"events", test_events},       {"atomics", test_atomics}, {"memory", test_memory},
    {"engine", test_engine},       {"messages", test_messages},
};
static const struct test faults[] = {
    {"busy", fault_busy},       {"errors", fault_errors},   {"registrations", fault_registrations},
    {"reorder", fault_reorder}, {"late", fault_late},       {"early", fault_early},
    {"limits", fault_limits},   {"threads", fault_threads}, {"leaks", fault_leaks},
    {"kill", fault_kill},
};

int main(int argc, char **argv) {
    gni_nic_device_t device;
    (void)argc;
    must(GNI_GetDeviceType(&device) == 0, "GNI_GetDeviceType");
    gemini = device == GNI_DEVICE_GEMINI;
    run_tests(tests, sizeof tests / sizeof *tests, true, argv);
    run_tests(faults, sizeof faults / sizeof *faults, false, argv);
    printf("done\n");
    return 0;
}
