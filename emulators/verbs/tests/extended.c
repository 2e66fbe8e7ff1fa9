// extended.c: posting by calls, and polling field by field.
#include "harness.h"

#include <errno.h>
#include <string.h>

static struct ibv_qp *make_qp(struct end *end) {
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
                                       .send_cq = end->send_cq,
                                       .recv_cq = end->recv_cq,
                                       .cap = {.max_send_wr = DEPTH,
                                               .max_recv_wr = DEPTH,
                                               .max_send_sge = 1,
                                               .max_recv_sge = 1,
                                               .max_inline_data = INLINE},
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = end->device->pd,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                                         IBV_QP_EX_WITH_RDMA_READ |
                                                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
    struct ibv_qp *qp = ibv_create_qp_ex(end->device->context, &init);
    must(qp != NULL, "ibv_create_qp_ex");
    return qp;
}

// Polls an extended CQ until something completes.
static void say_polled(const char *what, struct ibv_cq_ex *cq) {
    struct ibv_poll_cq_attr attr = {0};
    int result = ENOENT;
    for (int i = 0; i < 100000 && result != 0; i++) result = ibv_start_poll(cq, &attr);
    if (result != 0) {
        say("extended", "%s: no completion", what);
        return;
    }
    say("extended", "%s: %s, id %d, opcode %d, %d bytes, right QP: %s", what, ibv_wc_status_str(cq->status),
        (int)cq->wr_id, ibv_wc_read_opcode(cq), (int)ibv_wc_read_byte_len(cq), ibv_wc_read_qp_num(cq) ? "yes" : "no");
    say("extended", "%s: more: %s", what, ibv_next_poll(cq) == ENOENT ? "none" : "some");
    ibv_end_poll(cq);
}

void test_extended(void) {
    struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM};
    struct ibv_qp *spare[2];
    struct end a, b;
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    make_end(&a, &devices[0], &(struct options){0});
    make_end(&b, &devices[1], &(struct options){0});
    must(ibv_qp_to_qp_ex(a.qp) == NULL, "a plain QP has no calls");
    struct ibv_cq_ex *cq = ibv_create_cq_ex(devices[1].context, &attr);
    must(cq != NULL, "ibv_create_cq_ex");
    struct ibv_cq *spare_cq = b.recv_cq;
    b.recv_cq = ibv_cq_ex_to_cq(cq);
    spare[0] = a.qp;
    spare[1] = b.qp;
    a.qp = make_qp(&a);
    b.qp = make_qp(&b);
    struct address address = address_of(&b);
    must(to_init(&a, access) == 0 && to_rtr(&a, &address) == 0 && to_rts(&a) == 0, "connect");
    address = address_of(&a);
    must(to_init(&b, access) == 0 && to_rtr(&b, &address) == 0 && to_rts(&b) == 0, "connect");
    must(post_receive(&b, 0, 64, 0) == 0, "receive");
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
    must(qp != NULL, "ibv_qp_to_qp_ex");
    strcpy((char *)a.buffer, "written");
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buffer + 100);
    ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buffer, 8);
    qp->wr_id = 2;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, "inline", 7);
    say("extended", "batch: %s", ibv_wr_complete(qp) == 0 ? "ok" : "refused");
    say_completion("extended", "batch", a.send_cq);
    say_polled("receive", cq);
    say("extended", "data: %s %s", b.buffer, b.buffer + 100);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    say("extended", "after an abort: %s", nothing(a.send_cq) ? "nothing" : "something");
    must(ibv_destroy_qp(a.qp) == 0 && ibv_destroy_qp(b.qp) == 0, "ibv_destroy_qp");
    must(ibv_destroy_cq(b.recv_cq) == 0, "ibv_destroy_cq");
    a.qp = spare[0];
    b.qp = spare[1];
    b.recv_cq = spare_cq;
    destroy_pair(&a, &b);
}
