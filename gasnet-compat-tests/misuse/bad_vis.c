/* Makes one scattered put or get that the specification forbids, named by the first argument;
 * test_misuse.py judges how the job ends. */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_vis.h>

#include <stdio.h>
#include <string.h>

enum { BYTES = 65536 };

static const char *what;
static int is(const char *name) { return strcmp(what, name) == 0; }

static void misuse(gex_TM_t tm, gex_Rank_t peer, char *base) {
    char data[64] = {0};
    const ptrdiff_t steps[1] = {1000}, packed[1] = {8};
    const size_t many[1] = {(size_t)1 << 62}, few[1] = {67}, two[1] = {2};
    void *to[2] = {base, base + 8}, *same[2] = {base + 16, base + 23}, *from[2] = {data, data + 32},
         *null[2] = {NULL, NULL};
    gex_Memvec_t there = {base, 40}, here = {data, 41}, outside[2] = {{base, 8}, {base + BYTES - 8, 33}};
    if (is("length")) gex_VIS_VectorPutBlocking(tm, peer, 1, &there, 1, &here, 0);
    if (is("indexed-length")) gex_VIS_IndexedGetBlocking(tm, 2, from, 8, peer, 2, to, 9, 0);
    if (is("null-list")) gex_VIS_IndexedPutBlocking(tm, peer, 2, to, 8, 2, NULL, 8, 0);
    if (is("null-local")) gex_VIS_IndexedPutBlocking(tm, peer, 2, to, 8, 2, null, 8, 0);
    if (is("twice")) gex_VIS_IndexedPutBlocking(tm, peer, 2, same, 8, 2, from, 8, 0);
    if (is("rank")) gex_VIS_IndexedPutBlocking(tm, peer + 7, 2, to, 8, 2, from, 8, 0);
    if (is("in-get"))
        gex_VIS_SetPeerCompletionHandler(200, NULL, 0, 0),
            gex_VIS_IndexedGetBlocking(tm, 2, from, 8, peer, 2, to, 8, 0);
    if (is("in-immediate"))
        gex_VIS_SetPeerCompletionHandler(200, NULL, 0, 0),
            gex_VIS_IndexedPutBlocking(tm, peer, 2, to, 8, 2, from, 8, GEX_FLAG_IMMEDIATE);
    /* These would corrupt memory, or are cheap to see: every flavour refuses them (but a single
     * piece, which is a put). */
    if (is("outside")) gex_VIS_VectorPutBlocking(tm, peer, 2, outside, 1, &here, 0);
    if (is("outside-strided")) gex_VIS_StridedPutBlocking(tm, peer, base, steps, data, packed, 8, few, 1, 0);
    if (is("before-strided")) {
        const ptrdiff_t back[1] = {-8};
        gex_VIS_StridedGetBlocking(tm, data, packed, peer, base, back, 8, two, 1, 0);
    }
    if (is("too-many")) gex_VIS_StridedPutBlocking(tm, peer, base, steps, data, packed, 8, many, 1, 0);
    if (is("payload")) gex_VIS_SetPeerCompletionHandler(200, data, GEX_VIS_MAX_PEERCOMPLETION + 1, 0);
    if (is("handler")) gex_VIS_SetPeerCompletionHandler(100, NULL, 0, 0);
    if (is("unregistered"))
        gex_VIS_SetPeerCompletionHandler(201, NULL, 0, 0),
            gex_VIS_IndexedPutBlocking(tm, peer, 2, to, 8, 2, from, 8, 0);
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    void *base;
    if (gex_Client_Init(&client, &ep, &tm, "BAD", &argc, &argv, 0) != GASNET_OK) return 3;
    what = argc > 1 ? argv[1] : "";
    if (gex_Segment_Attach(&segment, tm, BYTES) != GASNET_OK) gasnet_exit(4);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, gex_TM_QuerySize(tm) - 1, &base, NULL, NULL, 0));
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gex_TM_QueryRank(tm) == 0) misuse(tm, gex_TM_QuerySize(tm) - 1, (char *)base);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    printf("fine\n");
    gasnet_exit(0);
    return 0;
}
