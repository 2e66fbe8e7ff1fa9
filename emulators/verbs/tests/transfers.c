// transfers.c: what works over RC: data, order, immediate data, gather lists, inline data, atomics.
#include "harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void sends(struct end *a, struct end *b) {
    struct ibv_sge list[3];
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = list, .num_sge = 3, .opcode = IBV_WR_SEND}, *bad;
    must(post_receive(b, 0, 64, 0) == 0 && post_receive(b, 64, 64, 0) == 0, "receives");
    memcpy(a->buffer, "first", 6);
    memcpy(a->buffer + 100, "second", 7);
    must(post(a, (struct work){.opcode = IBV_WR_SEND, .bytes = 6, .id = 1}) == 0, "send");
    must(post(a, (struct work){.opcode = IBV_WR_SEND_WITH_IMM,
                               .bytes = 7,
                               .offset = 100,
                               .imm = htonl(0xabcd),
                               .id = 2,
                               .flags = IBV_SEND_SIGNALED}) == 0,
         "send");
    say_completion("transfers", "send, the second signalled", a->send_cq);
    say_completion("transfers", "receive", b->recv_cq);
    say_completion("transfers", "receive with immediate", b->recv_cq);
    say("transfers", "data: %s %s", b->buffer, b->buffer + 64);
    for (int i = 0; i < 3; i++) {
        list[i].addr = (uintptr_t)a->buffer + 1000 * (unsigned)i;
        list[i].length = 3;
        list[i].lkey = a->mr->lkey;
        memcpy(a->buffer + 1000 * i, "onetwothree" + 3 * i, 3);
    }
    must(post_receive(b, 200, 64, 0) == 0, "receive");
    must(ibv_post_send(a->qp, &wr, &bad) == 0, "gather");
    say_completion("transfers", "receive of a gather list", b->recv_cq);
    say("transfers", "gathered: %.9s", b->buffer + 200);
    must(post_receive(b, 300, 64, 0) == 0, "receive");
    memcpy(a->buffer, "inline", 7);
    // Inline data need no key, and may be overwritten at once.
    must(post(a, (struct work){.opcode = IBV_WR_SEND,
                               .bytes = 7,
                               .lkey = 0x12345600,
                               .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
                               .id = 6}) == 0,
         "inline");
    memset(a->buffer, 'x', 7);
    say_completion("transfers", "inline", a->send_cq);
    say_completion("transfers", "receive of inline data", b->recv_cq);
    say("transfers", "inline data: %s", b->buffer + 300);
    must(post_receive(b, 400, 8, 0) == 0, "receive");
    must(post(a, (struct work){.opcode = IBV_WR_SEND, .id = 7, .flags = IBV_SEND_SIGNALED}) == 0, "empty");
    say_completion("transfers", "empty send", a->send_cq);
    say_completion("transfers", "receive of nothing", b->recv_cq);
}

static void rdma(struct end *a, struct end *b) {
    uint64_t remote = (uintptr_t)b->buffer;
    memcpy(a->buffer + 32, "written", 8);
    must(post(a, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                               .bytes = 8,
                               .offset = 32,
                               .remote = remote + 2000,
                               .rkey = b->mr->rkey,
                               .id = 10,
                               .flags = IBV_SEND_SIGNALED}) == 0,
         "write");
    say_completion("transfers", "write", a->send_cq);
    say("transfers", "written: %s; a completion at the target: %s", b->buffer + 2000,
        nothing(b->recv_cq) ? "none" : "some");
    must(post_receive(b, 500, 1, 0) == 0, "receive");
    must(post(a, (struct work){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                               .bytes = 8,
                               .offset = 32,
                               .remote = remote + 3000,
                               .rkey = b->mr->rkey,
                               .imm = htonl(77),
                               .id = 11,
                               .flags = IBV_SEND_SIGNALED}) == 0,
         "write with immediate");
    say_completion("transfers", "write with immediate", a->send_cq);
    say_completion("transfers", "its receive", b->recv_cq);
    memcpy(b->buffer + 4000, "read", 5);
    must(post(a, (struct work){.opcode = IBV_WR_RDMA_READ,
                               .bytes = 5,
                               .offset = 64,
                               .remote = remote + 4000,
                               .rkey = b->mr->rkey,
                               .id = 12,
                               .flags = IBV_SEND_SIGNALED}) == 0,
         "read");
    say_completion("transfers", "read", a->send_cq);
    say("transfers", "read: %s", a->buffer + 64);
    must(post(a, (struct work){.opcode = IBV_WR_RDMA_WRITE, .id = 13, .flags = IBV_SEND_SIGNALED}) == 0, "empty");
    say_completion("transfers", "empty write with a wrong key", a->send_cq);
}

static void atomics(struct end *a, struct end *b) {
    uint64_t *word = (uint64_t *)(b->buffer + 8000), *result = (uint64_t *)(a->buffer + 8000);
    struct work work = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                        .bytes = 8,
                        .offset = 8000,
                        .remote = (uintptr_t)word,
                        .rkey = b->mr->rkey,
                        .compare_add = 5,
                        .id = 20,
                        .flags = IBV_SEND_SIGNALED};
    if (devices[0].attr.atomic_cap == IBV_ATOMIC_NONE) return;
    *word = 40;
    must(post(a, work) == 0, "fetch and add");
    say_completion("transfers", "fetch and add", a->send_cq);
    say("transfers", "before %d, after %d", (int)*result, (int)*word);
    work.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    work.compare_add = 45;
    work.swap = 9;
    must(post(a, work) == 0, "compare and swap");
    say_completion("transfers", "compare and swap", a->send_cq);
    say("transfers", "before %d, after %d", (int)*result, (int)*word);
    must(post(a, work) == 0, "compare and swap");
    say_completion("transfers", "compare and swap that finds another value", a->send_cq);
    say("transfers", "before %d, after %d", (int)*result, (int)*word);
}

// Each message overwrites the last one's mark: the receiver must see them in order, and the last
// write.
static void order(struct end *a, struct end *b) {
    int good = 0;
    for (int i = 0; i < 400; i++) {
        uint32_t *source = (uint32_t *)(a->buffer + 64 * (i % 4)), *target = (uint32_t *)(b->buffer + 9000);
        *source = (uint32_t)i;
        must(post_receive(b, 9100, 4, 0) == 0, "receive");
        must(post(a, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                   .bytes = 4,
                                   .offset = 64 * (uint32_t)(i % 4),
                                   .remote = (uintptr_t)target,
                                   .rkey = b->mr->rkey}) == 0,
             "write");
        must(post(a, (struct work){.opcode = IBV_WR_SEND,
                                   .bytes = 4,
                                   .offset = 64 * (uint32_t)(i % 4),
                                   .flags = IBV_SEND_SIGNALED}) == 0,
             "send");
        struct ibv_wc wc = wait_for(b->recv_cq);
        must(wc.status == IBV_WC_SUCCESS, "receive");
        if (*target == (uint32_t)i && *(uint32_t *)(b->buffer + 9100) == (uint32_t)i) good++;
        must(wait_for(a->send_cq).status == IBV_WC_SUCCESS, "send");
    }
    say("transfers", "writes seen with the send behind them: %d of 400", good);
}

void test_transfers(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    sends(&a, &b);
    rdma(&a, &b);
    atomics(&a, &b);
    order(&a, &b);
    destroy_pair(&a, &b);
}
