// EVERYTHING where the kernel refuses to copy between processes, from the start, with one of two
// errors: messages do it.
// NP: 2 3
// SEGMENTS: everything
// CONDUITS: smp ofi udp sock loop any
// TIMEOUT: 120
// ARGS: enosys
// VARIANT: eperm
// ARGS: eperm
#include "everywhere.h"
#include "../common/refuse.h"

int main(int argc, char **argv) {
    char stack[AREA + 64];
    int error = argc > 1 && strcmp(argv[1], "eperm") == 0 ? EPERM : ENOSYS;
    int filtered = refuse(SYS_process_vm_readv, (unsigned)error) && refuse(SYS_process_vm_writev, (unsigned)error);
    test_init_flags("refused", &argc, &argv, GEX_FLAG_USES_GASNET1);
    if (!filtered) test_skip("this machine has no seccomp filters");
    CHECK(refusal() == error);
    everywhere_handlers();
    everywhere(stack);
    return test_finish();
}
