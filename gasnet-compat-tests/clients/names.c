// Names that no document lists, in the shape that clients need: each compiles as the client named
// beside it writes it (C and C++), and works. Keys of clients: see values.c. clients/client_hooks,
// coll/coll_gasnet1, vis/vis_gasnet1 and tools/tools_lite go into depth.
// NP: 1 2
// TIMEOUT: 60
// VARIANT: cxx
// LANGUAGE: c++
#define GASNETI_BUG1389_WORKAROUND 1 /* Legion, realm-ex: a definition of the client's */
#include "check.h"

#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_vis.h>

/* realm-ex, osss: only tested */
#if GASNET_IBV_MULTIRAIL || GASNETC_IBV_MAX_HCAS_CONFIGURE || GASNETC_IBV_RCV_THREAD
#error "these describe other conduits"
#endif
#ifndef _INCLUDED_GASNET_TOOLS_H /* realm-g1 */
#error "the guard of gasnet_tools.h has another name"
#endif
#if GASNETI_MAX_THREADS < 1 /* chapel: an integer, also for the preprocessor */
#error "GASNETI_MAX_THREADS"
#endif
static char per_thread[GASNETI_MAX_THREADS]; /* chapel: sizes an array */

#ifndef HAVE_MMAP /* bupc */
#error "HAVE_MMAP"
#endif
#ifndef HAVE_MAP_ANON /* bupc */
#error "HAVE_MAP_ANON"
#endif

/* chapel declares it itself, in these words, which must agree with the header */
GASNETT_BEGIN_EXTERNC /* bupc */
    extern void (*gasnet_client_attach_hook)(void *, uintptr_t);
extern const char names_external[];
const char names_external[] = "C linkage";
GASNETT_END_EXTERNC /* bupc */

    static int hook_calls;
static void hook(void *base, uintptr_t bytes) { hook_calls += base != NULL && bytes != 0; }

/* bupc: values of any size in memory of any alignment */
static uintptr_t value_at(const void *source, size_t bytes) { GASNETT_VALUE_RETURN(source, bytes); }

/* upcxx, caffeine, bupc: in place of if, also before else */
static int predicted(int value) {
    if_pf (value < 0) return -1;
    else if_pt (value > 0) return 1;
    else return 0;
}

/* upcxx23: the compiler needs no return behind it */
static int certain(int value) {
    switch (value) {
        case 1: return 10;
        default: gasneti_builtin_unreachable();
    }
}

static void check_small_ones(void) {
    void *volatile unwarned[2]; /* realm-ex, realm-g1 */
    char text[32], memory[17];
#ifdef __cplusplus
    unwarned[0] = (void *)_gasneti_threadkey_init;
    unwarned[1] = (void *)_gasnett_trace_printf_noop;
#else /* ISO C has no such conversion */
    unwarned[0] = (void *)(uintptr_t)_gasneti_threadkey_init;
    unwarned[1] = (void *)(uintptr_t)_gasnett_trace_printf_noop;
#endif
    CHECK(unwarned[0] != NULL && unwarned[1] != NULL);
    const char *host = gasneti_gethostname(); /* gexex */
    CHECK(!strcmp(host, gasnett_gethostname()) && host[0]);
    CHECK(!strcmp(_STRINGIFY(_CONCAT(GEX_AM_INDEX, _BASE)), "128"));            /* upcxx: both expand their arguments */
    CHECK(MIN(3, 2) == 2 && MAX(3, 2) == 3 && MAX(-1, 1) * 2 == 2);             /* caffeine, gexex, epcc, xmp */
    snprintf(text, sizeof text, "%" PRIuSZ "/%5" PRIuSZ, (size_t)7, (size_t)8); /* caffeine */
    CHECK(!strcmp(text, "7/    8"));
    CHECK(predicted(-5) == -1 && predicted(5) == 1 && predicted(0) == 0);
    CHECK(certain(1) == 10);
    for (size_t bytes = 1; bytes <= 8; bytes++) { /* bupc */
        memset(memory, 0x55, sizeof memory);
        GASNETT_VALUE_ASSIGN(memory + 1, UINT64_C(0x8877665544332211), bytes);
        CHECKF(value_at(memory + 1, bytes) == (UINT64_C(0x8877665544332211) & (~UINT64_C(0) >> (64 - 8 * bytes))),
               "%zu bytes", bytes);
        CHECKF(memory[0] == 0x55 && memory[1 + bytes] == 0x55, "%zu bytes", bytes);
    }
    GASNETT_FAST_ALIGNED_MEMCPY(memory, "0123456", 8); /* bupc */
    CHECK(!strcmp(memory, "0123456"));
    GASNETT_FAST_UNALIGNED_MEMCPY(memory + 1, "abc", 3); /* bupc */
    CHECK(!strcmp(memory, "0abc456"));
    per_thread[0] = 1;
    CHECK(gex_System_QueryMaxThreads() >= sizeof per_thread || gex_System_QueryMaxThreads() == 1); /* chapel */
    gasnet_hold_interrupts();                                                                      /* ocaf */
    gasnet_resume_interrupts();                                                                    /* ocaf */
    CHECK(!strcmp(names_external, "C linkage"));
}

static void check_barriers(void) {
    OK(gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS)); /* upcxx01 */
    OK(gasnet_barrier(5, 0));                            /* bupc */
    OK(gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED));   /* bupc, upcxx01 */
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_UNNAMED);
    OK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_UNNAMED));
}

static void check_collectives(void) {
    int mine = (int)me + 1, sum = 0, *all = (int *)calloc(np, sizeof *all), got = 0, round = -1;
    gasnet_coll_handle_t handle; /* upcxx01 */
    gex_Rank_t i;
    gasnet_coll_broadcast(GASNET_TEAM_ALL, &got, 0, &mine, sizeof mine,
                          GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL); /* bcl */
    CHECK(got == 1);
    gasnet_coll_gather(GASNET_TEAM_ALL, 0, all, &mine, sizeof mine,
                       GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC); /* realm-g1 */
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof mine,
                           GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL); /* bupc, realm-g1 */
    for (i = 0; i < np; i++) sum += all[i];
    CHECK(sum == (int)(np * (np + 1) / 2));
    handle = gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, &round, 0, &mine, sizeof mine,
                                      GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC); /* upcxx01 */
    while (gasnet_coll_try_sync(handle) != GASNET_OK) gasnet_AMPoll();
    CHECK(round == 1);
    free(all);
}

static void check_transfers(void) {
    gex_Rank_t peer = (me + 1) % np;
    char *remote = seg_of(peer), out[24] = "scattered, GASNet-1", in[24] = "";
    gasnet_memvec_t here[2], there[1]; /* ocaf */
    const size_t strides[1] = {8}, count[2] = {4, 2};
    gasnet_handle_t handle;
    memset(in, 0, sizeof in);
    here[0].addr = out, here[0].len = 10;
    here[1].addr = out + 10, here[1].len = 14;
    there[0].addr = remote, there[0].len = 24;
    gasnet_putv_bulk(peer, 1, there, 2, here); /* ocaf */
    here[0].addr = in;
    here[1].addr = in + 10;
    gasnet_getv_bulk(2, here, peer, 1, there); /* ocaf */
    CHECK(!memcmp(in, out, sizeof in));
    memset(in, 0, sizeof in);
    gasnet_gets_nbi_bulk(in, strides, peer, remote, strides, count, 1); /* bench */
    gasnet_wait_syncnbi_gets();
    CHECK(!memcmp(in, out, 4) && !memcmp(in + 8, out + 8, 4) && in[4] == 0);
    handle = gasnet_put_nb_bulk(peer, remote, out, sizeof out);
    while (gasnet_try_syncnb_nopoll(handle) != GASNET_OK) gasnet_AMPoll(); /* upcxx01 */
}

int main(int argc, char **argv) {
    CHECK(gasnet_client_attach_hook == NULL);
    gasnet_client_attach_hook = hook; /* chapel: before attach, here even before init */
    test_init_flags("names", &argc, &argv, GEX_FLAG_USES_GASNET1);
    CHECK(hook_calls == 0);
    test_attach(4096);
#ifndef GASNET_SEGMENT_EVERYTHING
    CHECK(hook_calls == 1);
#endif
    PHASE("small ones");
    check_small_ones();
    PHASE("barriers");
    check_barriers();
    PHASE("collectives");
    check_collectives();
    PHASE("transfers");
    barrier();
    check_transfers();
    barrier();
    return test_finish();
}
