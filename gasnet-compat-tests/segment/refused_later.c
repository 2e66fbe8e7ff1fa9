// EVERYTHING where the kernel comes to refuse copies between processes, first writes (EPERM), then
// reads (ENOSYS), while the program runs: what was promised before, like the largest Long, still
// holds.
// NP: 2 3
// SEGMENTS: everything
// CONDUITS: smp ofi udp sock loop any
// TIMEOUT: 180
#include "everywhere.h"
#include "../common/refuse.h"

int main(int argc, char **argv) {
    char stack[AREA + 64];
    test_init_flags("refused_later", &argc, &argv, GEX_FLAG_USES_GASNET1);
    everywhere_handlers();
    everywhere(stack);
    size_t most = gex_AM_MaxRequestLong(tm, (me + 1) % np, GEX_EVENT_NOW, 0, 3);
    if (!refuse(SYS_process_vm_writev, EPERM)) test_skip("this machine has no seccomp filters");
    everywhere(stack);
    REQUIRE(refuse(SYS_process_vm_readv, ENOSYS));
    CHECK(refusal() == ENOSYS);
    everywhere(stack);
    CHECK(gex_AM_MaxRequestLong(tm, (me + 1) % np, GEX_EVENT_NOW, 0, 3) == most);
    return test_finish();
}
