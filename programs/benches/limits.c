/* limits: what this machine allows, without any library: copies, cache lines to and fro, barriers
 * by sched_yield and by futex, pipes, system calls.
 *
 *   cc -O2 -I programs/perf programs/benches/limits.c programs/perf/limits.c -o limits
 *   ./limits [PROCESSES...]     (2 4 16 64) */
#include "limits.h"

#include <stdlib.h>

int main(int argc, char **argv) {
    static const int usual[] = {2, 4, 16, 64};
    int i, count = argc > 1 ? argc - 1 : (int)(sizeof usual / sizeof usual[0]);
    for (i = 0; i < count; i++) {
        struct limits limits;
        int processes = argc > 1 ? atoi(argv[i + 1]) : usual[i];
        if (processes < 1 || processes > 4096) {
            fprintf(stderr, "usage: limits [PROCESSES...], numbers from 1 to 4096\n");
            return 2;
        }
        limits_measure(&limits, processes);
        limits_print(&limits, stdout);
    }
    return 0;
}
