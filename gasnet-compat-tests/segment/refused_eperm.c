// EVERYTHING where the kernel refuses to copy between processes, from the start, with EPERM:
// messages do it.
// NP: 2 3
// SEGMENTS: everything
// CONDUITS: smp ofi udp sock loop any
// TIMEOUT: 120
#include "everywhere.h"
#include "refuse.h"

int main(int argc, char **argv) {
    char stack[AREA + 64];
    int filtered = refuse(SYS_process_vm_readv, EPERM) && refuse(SYS_process_vm_writev, EPERM);
    test_init_flags("refused_eperm", &argc, &argv, GEX_FLAG_USES_GASNET1);
    if (!filtered) test_skip("this machine has no seccomp filters");
    CHECK(refusal() == EPERM);
    everywhere_handlers();
    everywhere(stack);
    return test_finish();
}
