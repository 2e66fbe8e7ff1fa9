// numa.c: a stand-in for libnuma on a machine whose even cores are on node 0 and whose odd cores
// are on node 1.
#include <stddef.h>
#include <stdint.h>

static struct {
    uintptr_t address;
    unsigned long bytes, mask;
    int mode, calls;
} last;

int numa_available(void) { return 0; }
int numa_node_of_cpu(int cpu) { return cpu < 0 ? -1 : cpu % 2; }

long mbind(void *address, unsigned long bytes, int mode, const unsigned long *mask, unsigned long most,
           unsigned flags) {
    (void)flags;
    last.address = (uintptr_t)address;
    last.bytes = bytes;
    last.mode = mode;
    last.mask = most > 1 ? mask[0] : 0;
    last.calls++;
    return 0;
}

// Calls of mbind, and what the last one asked for.
int standin_bound(uintptr_t *address, size_t *bytes, int *mode, unsigned long *mask) {
    *address = last.address;
    *bytes = last.bytes;
    *mode = last.mode;
    *mask = last.mask;
    return last.calls;
}
