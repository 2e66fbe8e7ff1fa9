// conformance.c: calls every part of libibverbs that the project uses, right and wrong, and prints what
// happened, in words that do not depend on the device. conformance.txt has the answers.
#include "harness.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"states", test_states}, {"transfers", test_transfers},
    {"errors", test_errors}, {"queues", test_queues},
    {"srq", test_srq},       {"ud", test_ud},
    {"xrc", test_xrc},       {"memory", test_memory},
};

int main(int argc, char **argv) {
    size_t i;
    // Processes first: a process that has devices open does not fork.
    if (argc < 2 || strcmp(argv[1], "processes") == 0) test_processes();
    open_devices();
    for (i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) tests[i].run();
    for (i = 0; i < 2; i++) {
        must(ibv_dealloc_pd(devices[i].pd) == 0, "ibv_dealloc_pd: nothing is left");
        must(ibv_close_device(devices[i].context) == 0, "ibv_close_device");
    }
    printf("done\n");
    return 0;
}
