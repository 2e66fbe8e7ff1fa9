// In EVERYTHING: memory that the kernel cannot copy but its owner can, from a page in the middle
// on: the owner's handler of SIGSEGV provides it when it is touched, as systems of shared virtual
// memory do. Puts, gets and Longs across the border arrive whole. (The NIC of Elan4 reads and
// writes such memory itself, without a signal.)
// NP: 2
// CONDUITS: smp sock udp ibv gni ofi loop any
// SEGMENTS: everything
// ENV: GASNET_NO_CATCH_SIGNAL=SIGSEGV
#include "check.h"

#include <gasnet_coll.h>

enum { BYTES = 1 << 20, HALF = BYTES / 2, H_LONG = 210 };
static char *area;
static int longs;
static volatile sig_atomic_t faults;

static void provide(int number, siginfo_t *info, void *context) {
    char *page = (char *)((uintptr_t)info->si_addr / 4096 * 4096);
    if (page < area || page >= area + BYTES) _exit(3);
    faults++;
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0) _exit(4);
}

static void on_long(gex_Token_t token, void *payload, size_t bytes) {
    CHECK_PATTERN(payload, bytes, 9);
    ATOMIC_ADD(&longs, 1);
}

/* Takes the upper half away. Its contents stay. */
static void withdraw(void) {
    barrier();
    if (me == 1) REQUIRE(mprotect(area + HALF, HALF, PROT_NONE) == 0);
    faults = 0;
    barrier();
}

int main(int argc, char **argv) {
    char *theirs = NULL, *out = (char *)malloc(BYTES), *in = (char *)malloc(BYTES);
    size_t bytes = 300001;
    struct sigaction action;
    test_init("half", &argc, &argv);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = provide;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    register_handler(H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    area = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(area != MAP_FAILED);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 1, &theirs, &area, sizeof area, 0));
    theirs += HALF - 150000;
    pattern_fill(out, BYTES, 7);
    PHASE("put");
    withdraw();
    if (me == 0) OK(gex_RMA_PutBlocking(tm, 1, theirs, out, bytes, 0));
    barrier();
    if (me == 1) {
        CHECKF(faults > 30, "%d faults", (int)faults);
        CHECK_PATTERN(theirs, bytes, 7);
    }
    PHASE("get");
    withdraw();
    if (me == 0) {
        gex_Event_Wait(gex_RMA_GetNB(tm, in, 1, theirs, bytes, 0));
        CHECK_PATTERN(in, bytes, 7);
    }
    barrier();
    if (me == 1) CHECKF(faults > 30, "%d faults", (int)faults);
    PHASE("Long");
    withdraw();
    bytes = MIN(bytes, gex_AM_MaxRequestLong(tm, 1, GEX_EVENT_NOW, 0, 0));
    if (me == 0) {
        pattern_fill(out, bytes, 9);
        OK(gex_AM_RequestLong0(tm, 1, H_LONG, out, bytes, theirs + 100000, GEX_EVENT_NOW, 0));
    } else {
        GASNET_BLOCKUNTIL(ATOMIC_GET(&longs) == 1);
    }
    return test_finish();
}
