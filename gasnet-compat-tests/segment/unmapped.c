// In EVERYTHING: an address where the target has no memory, or none that may be written, ends the
// job, and the target says who asked for what. Each case is a job of its own, started by this
// program, which reads what it prints. (The NIC of Elan4 traps, and libelan ends the job.)
// NP: 2
// CONDUITS: smp sock udp ibv gni ofi loop any
// SEGMENTS: everything
// MODES: par
// TIMEOUT: 120
#include "check.h"

#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <sys/wait.h>

enum { CASES = 9, H_LONG = 210 };

static void on_long(gex_Token_t token, void *payload, size_t bytes) {}

/* Invalid calls: `hole` of rank 1 may not be accessed, `constant` may not be written. */
static void offend(int which, char *hole, char *constant) {
    static char mine[200000];
    gex_AD_t ad;
    uint64_t old;
    if (which == 8) gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);
    if (me != 0) return;
    switch (which) {
        case 0: gex_RMA_PutBlocking(tm, 1, hole, mine, 100, 0); break;
        case 1: gex_RMA_GetBlocking(tm, mine, 1, hole, 100, 0); break;
        case 2: gex_RMA_PutBlockingVal(tm, 1, hole, 5, 8, 0); break;
        case 3: gex_RMA_GetBlockingVal(tm, 1, (void *)16, 4, 0); break;
        case 4: gex_RMA_PutBlocking(tm, 1, constant, mine, 3000, 0); break;
        /* the first half is there */
        case 5: gex_RMA_PutBlocking(tm, 1, hole - 70000, mine, 140000, 0); break;
        case 6:
            gex_AM_RequestLong0(tm, 1, H_LONG, mine, MIN(100000, gex_AM_MaxRequestLong(tm, 1, GEX_EVENT_NOW, 0, 0)),
                                hole, GEX_EVENT_NOW, 0);
            break;
        case 7: {
            void *list[2] = {hole, hole + 64}, *from[1] = {mine};
            gex_VIS_IndexedPutBlocking(tm, 1, 2, list, 16, 1, from, 32, 0);
            break;
        }
        default: gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, 1, hole, GEX_OP_FADD, 1, 0, 0)); break;
    }
}

static int job(int which, int *argc, char ***argv) {
    size_t bytes = 1 << 20;
    char *theirs;
    test_init("unmapped", argc, argv);
    char *base = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *hole = base + bytes / 2;
    REQUIRE(base != MAP_FAILED && mprotect(hole, bytes / 4, PROT_NONE) == 0 &&
            mprotect(hole + bytes / 4, bytes / 4, PROT_READ) == 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 1, &theirs, &hole, sizeof hole, 0));
    register_handler(H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    barrier();
    offend(which, theirs, theirs + bytes / 4);
    barrier();
    return test_finish();
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int which = 0; which < CASES; which++) {
        char text[4096];
        size_t used = 0;
        ssize_t got;
        int ends[2], status = 0;
        if (pipe(ends) != 0) return 1;
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
            dup2(ends[1], 2);
            close(ends[0]);
            close(ends[1]);
            exit(job(which, &argc, &argv));
        }
        close(ends[1]);
        while ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0) used += (size_t)got;
        text[used] = 0;
        close(ends[0]);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 128 + SIGSEGV || !strstr(text, "(rank 1/2): SIGSEGV") ||
            !strstr(text, "served rank 0") || !strstr(text, "of this rank")) {
            fprintf(stderr, "FAIL unmapped case %d: status %#x, and on standard error: %s\n", which, (unsigned)status,
                    text);
            failed = 1;
        }
    }
    if (!failed) printf("PASS unmapped\n");
    return failed;
}
