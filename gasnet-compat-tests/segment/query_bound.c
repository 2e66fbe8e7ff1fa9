// gex_EP_QueryBoundSegmentNB and gex_Segment_QueryBound: before and after attach, NULL outputs,
// GEX_FLAG_IMMEDIATE, the own endpoint and remote ones, in a handler and through a TM pair.
// NP: 1 2 4 7
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t handler_index = 203;
static int handled;

static uintptr_t size_of(gex_Rank_t rank) { return (uintptr_t)GASNET_PAGESIZE * (1 + rank % 5); }

static void before_attach(void) {
    PHASE("before attach");
    for (gex_Rank_t r = 0; r < np; r++) {
        int mark;
        void *owner = &mark, *local = &mark;
        uintptr_t size = 4711;
        gex_Event_t event = gex_EP_QueryBoundSegmentNB(tm, r, &owner, &local, &size, 0);
        CHECK(event != GEX_EVENT_NO_OP);
        gex_Event_Wait(event);
        CHECKF(size == 0, "size of rank %u is %zu", (unsigned)r, (size_t)size);
        owner = local = &mark;
        size = 4711;
        CHECK(gex_Segment_QueryBound(tm, r, &owner, &local, &size) != 0);
        CHECK(owner == &mark && local == &mark && size == 4711);
    }
    {
        uintptr_t size = 4711;
        gex_Event_t event = gex_EP_QueryBoundSegmentNB(tm, me, NULL, NULL, &size, GEX_FLAG_IMMEDIATE);
        CHECK(event == GEX_EVENT_INVALID && size == 0);
    }
}

static void check_answer(gex_Rank_t r, void *owner, void *local, uintptr_t size) {
    CHECK(owner != NULL && (uintptr_t)owner % GASNET_PAGESIZE == 0);
    CHECKF(size == size_of(r), "rank %u: %zu", (unsigned)r, (size_t)size);
    if (r == me) {
        CHECK(owner == gex_Segment_QueryAddr(segment));
        CHECK(local == owner);
    }
    if (local != NULL) /* a neighbour: its memory can be read through the local address */
        CHECK(*(volatile unsigned *)local == 0xBEEF0000U + r);
}

static void after_attach(gex_TM_t team) {
    for (gex_Rank_t r = 0; r < np; r++) {
        void *owner = NULL, *local = NULL, *owner2 = NULL, *local2 = NULL;
        uintptr_t size = 0, size2 = 0;
        gex_Event_t event = gex_EP_QueryBoundSegmentNB(team, r, &owner, &local, &size, 0);
        CHECK(event != GEX_EVENT_NO_OP);
        gex_Event_Wait(event);
        check_answer(r, owner, local, size);
        CHECK(gex_Segment_QueryBound(team, r, &owner2, &local2, &size2) == 0);
        CHECK(owner2 == owner && local2 == local && size2 == size);
        /* any output may be missing */
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, r, NULL, NULL, NULL, 0));
        owner2 = local2 = NULL;
        size2 = 0;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, r, &owner2, NULL, NULL, 0));
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, r, NULL, &local2, NULL, 0));
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, r, NULL, NULL, &size2, 0));
        CHECK(owner2 == owner && local2 == local && size2 == size);
        CHECK(gex_Segment_QueryBound(team, r, NULL, NULL, NULL) == 0);
        owner2 = NULL;
        CHECK(gex_Segment_QueryBound(team, r, &owner2, NULL, NULL) == 0 && owner2 == owner);
        /* IMMEDIATE: the own endpoint always answers, another one may decline */
        owner2 = NULL;
        size2 = 0;
        event = gex_EP_QueryBoundSegmentNB(team, r, &owner2, NULL, &size2, GEX_FLAG_IMMEDIATE);
        if (r == me) CHECK(event == GEX_EVENT_INVALID);
        CHECK(event == GEX_EVENT_INVALID || event == GEX_EVENT_NO_OP);
        if (event == GEX_EVENT_INVALID) CHECK(owner2 == owner && size2 == size);
    }
}

/* Neighbours have a local address, as the neighbourhood is the set of processes that share
 * memory. */
static void neighbours_are_mapped(void) {
    gex_RankInfo_t *info;
    gex_Rank_t count;
    gex_System_QueryNbrhdInfo(&info, &count, NULL);
    for (gex_Rank_t i = 0; i < count; i++) {
        void *local = NULL;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, info[i].gex_jobrank, NULL, &local, NULL, 0));
        CHECKF(local != NULL, "neighbour %u", (unsigned)info[i].gex_jobrank);
    }
}

static void handler(gex_Token_t token) {
    void *owner = NULL;
    uintptr_t size = 0;
    gex_Token_Info_t info;
    gex_Event_t event = gex_EP_QueryBoundSegmentNB(tm, me, &owner, NULL, &size, GEX_FLAG_IMMEDIATE);
    CHECK(event == GEX_EVENT_INVALID);
    CHECK(owner == gex_Segment_QueryAddr(segment) && size == size_of(me));
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    event = gex_EP_QueryBoundSegmentNB(tm, info.gex_srcrank, &owner, NULL, &size, GEX_FLAG_IMMEDIATE);
    if (event == GEX_EVENT_INVALID) CHECK(size == size_of(info.gex_srcrank));
    else CHECK(event == GEX_EVENT_NO_OP);
    ATOMIC_ADD(&handled, 1);
}

int main(int argc, char **argv) {
    test_init("query_bound", &argc, &argv);
    register_handler(handler_index, (gex_AM_Fn_t)handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    gex_System_SetVerboseErrors(0);
    before_attach();
    gex_System_SetVerboseErrors(1);
    barrier();
    test_attach(size_of(me));
    *(volatile unsigned *)gex_Segment_QueryAddr(segment) = 0xBEEF0000U + me;
    barrier();
    PHASE("after attach");
    after_attach(tm);
    neighbours_are_mapped();
    PHASE("through a TM pair");
    after_attach(gex_TM_Pair(ep, 0));
    PHASE("in a handler");
    for (gex_Rank_t r = 0; r < np; r++) gex_AM_RequestShort0(tm, r, handler_index, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == (int)np);
    barrier();
    return test_finish();
}
