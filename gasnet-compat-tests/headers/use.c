// Uses every kind of macro that the headers offer, in the ways of real clients (C and C++).
// Compiled, never run.
#include <gasnet.h>

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

static int count(int *word) { return ++*word; }
static volatile int flag;

int use_am(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, gex_Event_t *lc);
int use_am(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, gex_Event_t *lc) {
    int refused = 0;
    gex_AM_SrcDesc_t sd;
    refused |= gex_AM_RequestShort(tm, rank, 128, 0);
    refused |= gex_AM_RequestShort(tm, rank, 128, GEX_FLAG_IMMEDIATE, 1);
    refused |= gex_AM_RequestShort(tm, rank, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    refused |= gex_AM_RequestShort16(tm, rank, 128, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    refused |= gex_AM_RequestMedium(tm, rank, 128, src, 8, GEX_EVENT_NOW, 0);
    refused |= gex_AM_RequestMedium(tm, rank, 128, src, 8, lc, 0, 1, (gex_AM_Arg_t)sizeof(int), count(&refused));
    refused |= gex_AM_RequestMedium(tm, rank, 128, src, 8, GEX_EVENT_GROUP, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                    13, 14, 15, 16);
    refused |= gex_AM_RequestLong(tm, rank, 128, src, 8, dest, GEX_EVENT_NOW, 0);
    refused |=
        gex_AM_RequestLong(tm, rank, 128, src, 8, dest, lc, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    sd = gex_AM_PrepareRequestMedium(tm, rank, NULL, 1, 8, NULL, GEX_FLAG_IMMEDIATE, 2);
    if (sd != GEX_AM_SRCDESC_NO_OP) {
        memset(gex_AM_SrcDescAddr(sd), 0, gex_AM_SrcDescSize(sd));
        gex_AM_CommitRequestMedium(sd, 128, 8, 1, 2);
    }
    sd = gex_AM_PrepareRequestLong(tm, rank, src, 1, 8, dest, lc, 0, 0);
    refused |= gex_AM_CommitRequestLong_v2(sd, 128, 8, dest, GEX_FLAG_IMMEDIATE);
    refused |= gex_AM_CommitRequestLong3_v2(sd, 128, 8, dest, 0, 1, 2, 3);
    refused |= gex_AM_CommitRequestMedium_v2(sd, 128, 8, 0, 1, 2, 3);
    gex_AM_CommitRequestLong(sd, 128, 8, dest);
    refused |= gex_AM_CancelRequestLong(sd, 0) | gex_AM_CancelRequestMedium(sd, 0);
    return refused;
}

void use_reply(gex_Token_t token, void *buffer, size_t nbytes, gex_AM_Arg_t first);
void use_reply(gex_Token_t token, void *buffer, size_t nbytes, gex_AM_Arg_t first) {
    gex_Token_Info_t info;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, 1, 8, NULL, 0, 1);
    if (gex_Token_Info(token, &info, GEX_TI_ALL) & GEX_TI_IS_REQ) {
        gex_AM_ReplyShort(token, 128, 0);
        gex_AM_ReplyShort(token, 128, 0, first, 2);
        gex_AM_ReplyMedium(token, 128, buffer, nbytes, GEX_EVENT_NOW, 0, first);
        gex_AM_ReplyLong(token, 128, buffer, nbytes, buffer, GEX_EVENT_NOW, 0);
        gex_AM_CommitReplyMedium(sd, 128, 8, first);
        (void)gex_AM_CommitReplyMedium_v2(sd, 128, 8, 0, first);
        gex_AM_CommitReplyLong(sd, 128, 8, buffer);
        (void)gex_AM_CommitReplyLong_v2(sd, 128, 8, buffer, 0);
        (void)gex_AM_CancelReplyMedium(sd, 0);
        (void)gex_AM_CancelReplyLong(sd, 0);
        gasnet_AMReplyShort2(token, 128, first, 1);
    }
}

gex_RMA_Value_t use_rma(gex_TM_t tm, gex_Rank_t rank, char *dest, const char *src, char *remote, size_t nbytes);
gex_RMA_Value_t use_rma(gex_TM_t tm, gex_Rank_t rank, char *dest, const char *src, char *remote, size_t nbytes) {
    gex_Event_t lc = GEX_EVENT_INVALID, events[4];
    int refused = gex_RMA_PutBlocking(tm, rank, remote, src, nbytes, 0);
    refused |= gex_RMA_PutNBI(tm, rank, remote, src, 3, GEX_EVENT_DEFER, GEX_FLAG_IMMEDIATE);
    events[0] = gex_RMA_PutNB(tm, rank, remote, src, nbytes, &lc, GEX_FLAG_PEER_NEVER_SELF);
    events[1] = gex_RMA_PutNB(tm, rank, remote, src, 8, GEX_EVENT_NOW, GEX_FLAG_PEER_NEVER_NBRHD);
    events[2] = gex_RMA_GetNB(tm, dest, rank, remote, 4, 0);
    events[3] = gex_RMA_PutNBVal(tm, rank, remote, 17, 2, 0);
    refused |= gex_RMA_GetBlocking(tm, dest, rank, remote, nbytes, 0) | gex_RMA_GetNBI(tm, dest, rank, remote, 1, 0);
    refused |= gex_RMA_PutBlockingVal(tm, rank, remote, 17, 8, 0) | gex_RMA_PutNBIVal(tm, rank, remote, 17, 1, 0);
    gex_Event_Wait(lc);
    gex_Event_WaitAll(events, 3, 0);
    if (gex_Event_Test(events[3]) == GASNET_OK && refused == 0) {
        gex_NBI_Wait(GEX_EC_ALL, 0);
    }
    gex_Event_Wait(gex_Event_QueryLeaf(events[3], GEX_EC_LC));
    return gex_RMA_GetBlockingVal(tm, rank, remote, 4, 0);
}

void use_waiting(int done);
void use_waiting(int done) {
    int turns = 0;
    if (!done) GASNET_BLOCKUNTIL(flag == 1);
    else GASNET_BLOCKUNTIL((count(&turns), turns > 3) && flag);
    if_pf (gasnet_AMPoll() != GASNET_OK) {
        gasnet_exit(MAX(1, MIN(turns, 2)));
    }
    GASNET_BLOCKUNTIL(flag || gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
}

int use_gasnet1(gasnet_node_t node, void *remote, void *local, gasnet_token_t token);
int use_gasnet1(gasnet_node_t node, void *remote, void *local, gasnet_token_t token) {
    GASNET_BEGIN_FUNCTION();
    gasnet_handle_t handle = gasnet_put_nb(node, remote, local, 8);
    gasnet_node_t source = 0;
    gasnet_wait_syncnb(handle);
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
    gasnet_AMGetMsgSource(token, &source);
    gasnet_AMRequestLongAsync1(node, 128, local, 8, remote, 1);
    gasnet_put(node, remote, local, (size_t)(uint32_t)gasnet_get_val(node, remote, 4));
    return gasnet_AMRequestShort0(node, 128) | gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED) | gasnet_try_syncnbi_all();
}

// The names are also functions that can be pointed to.
typedef int (*poll_fn)(void);
typedef gex_Event_t (*put_fn)(gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Event_t *, gex_Flags_t);
typedef int (*short_fn)(gex_TM_t, gex_Rank_t, gex_AM_Index_t, gex_Flags_t, gex_AM_Arg_t, gex_AM_Arg_t);
extern const poll_fn use_poll;
extern const put_fn use_put;
extern const short_fn use_short;
const poll_fn use_poll = &gasnet_AMPoll;
const put_fn use_put = &gex_RMA_PutNB;
const short_fn use_short = gex_AM_RequestShort2;

#ifdef __cplusplus
// Template arguments bring commas that no parenthesis protects.
template <class A, class B> static A first_of(A a, B b) { return (void)b, a; }
struct Members {
    gex_TM_t tm;
    int put(gex_Rank_t rank, void *dest, const void *src) {
        return ::gex_RMA_PutBlocking(tm, first_of<gex_Rank_t, int>(rank, 1), dest, src, first_of<size_t, int>(8, 1), 0);
    }
    int send(gex_Rank_t rank) { return ::gex_AM_RequestShort2(tm, rank, 128, 0, 1, first_of<int, int>(1, 2)); }
    void wait() { GASNET_BLOCKUNTIL(first_of<bool, int>(flag != 0, 2)); }
};
int use_members(Members &members);
int use_members(Members &members) {
    members.wait();
    return members.put(0, &members, &members) + members.send(0);
}
#endif

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    (void)use_poll;
    if (argc > 5) {
        return gasnet_init(&argc, &argv);
    }
    return gex_Client_Init(&client, &ep, &tm, "USE", &argc, &argv, 0);
}
