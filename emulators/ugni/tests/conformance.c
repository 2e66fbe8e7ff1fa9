// conformance.c: calls every part of the emulator of uGNI, right and wrong, and prints what
// happened. "conformance" runs all tests, whose answers are in conformance.txt; "conformance
// NAME..." some, also those of faults.
#include "harness.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} tests[] =
    {
        {"layout", test_layout},     {"processes", test_processes}, {"domains", test_domains},
        {"checks", test_checks},     {"transfers", test_transfers}, {"events", test_events},
        {"atomics", test_atomics},   {"memory", test_memory},       {"engine", test_engine},
        {"messages", test_messages},
},
  faults[] = {
      {"busy", fault_busy},       {"errors", fault_errors},   {"registrations", fault_registrations},
      {"reorder", fault_reorder}, {"late", fault_late},       {"early", fault_early},
      {"limits", fault_limits},   {"threads", fault_threads}, {"leaks", fault_leaks},
      {"kill", fault_kill},
};

static bool named(const char *name, int argc, char **argv) {
    int i;
    for (i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    gni_nic_device_t device;
    size_t i;
    must(GNI_GetDeviceType(&device) == 0, "GNI_GetDeviceType");
    gemini = device == GNI_DEVICE_GEMINI;
    for (i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc < 2 || named(tests[i].name, argc, argv)) tests[i].run();
    for (i = 0; i < sizeof faults / sizeof *faults; i++)
        if (named(faults[i].name, argc, argv)) faults[i].run();
    printf("done\n");
    return 0;
}
