// A client that protects pages of its segment and opens them in its handler of SIGSEGV, as
// collectors and checkpoints do: the handler also runs for a put that a thread of the library
// places while the client computes.
// NP: 2
// CONDUITS: udp
// SEGMENTS: fast
// ENV: GASNET_SUPERNODE_MAXSIZE=1
#include "check.h"

#include <sys/mman.h>

enum { BYTES = 1 << 20 };
static char *memory;
static int faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
    char *at = (char *)info->si_addr;
    if (at < memory || at >= memory + BYTES) _exit(3);
    ATOMIC_ADD(&faults, 1);
    mprotect(memory, BYTES, PROT_READ | PROT_WRITE);
}

static void put(size_t bytes) {
    static char source[BYTES];
    PHASE("a put to protected pages");
    if (me == 1) {
        memset(memory, 0, BYTES);
        ATOMIC_SET(&faults, 0);
        OK(mprotect(memory, BYTES, PROT_NONE));
    }
    barrier();
    if (me == 0) {
        pattern_fill(source, bytes, bytes);
        OK(gex_RMA_PutBlocking(tm, 1, seg_of(1), source, bytes, 0));
    } else {
        while (ATOMIC_GET(&faults) == 0) usleep(1000);
    }
    barrier();
    if (me == 1) CHECK_PATTERN(memory, bytes, bytes);
}

int main(int argc, char **argv) {
    struct sigaction action;
    test_init("write_barrier", &argc, &argv);
    test_attach(BYTES);
    memory = (char *)seg_of(me);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    OK(sigaction(SIGSEGV, &action, NULL));
    put(8);
    put(4000);
    put(10000);
    put(BYTES);
    return test_finish();
}
