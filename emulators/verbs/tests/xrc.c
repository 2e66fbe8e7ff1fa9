// xrc.c: one connection that reaches two SRQs.
#include "harness.h"

#include <string.h>

static struct ibv_srq *make_srq(struct device *device, struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number) {
    struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 8, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = device->pd,
                                        .xrcd = xrcd,
                                        .cq = cq};
    struct ibv_srq *srq = ibv_create_srq_ex(device->context, &init);
    must(srq != NULL && ibv_get_srq_num(srq, number) == 0, "an XRC SRQ");
    return srq;
}

static int send_to(struct end *from, uint32_t srqn) {
    struct ibv_sge sge = {(uintptr_t)from->buffer, 8, from->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .wr_id = 9};
    struct ibv_send_wr *bad;
    wr.qp_type.xrc.remote_srqn = srqn;
    return ibv_post_send(from->qp, &wr, &bad);
}

void test_xrc(void) {
    struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD};
    struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
                                    .qp_type = IBV_QPT_XRC_RECV};
    struct ibv_srq *srq[2];
    struct end a, b;
    uint32_t number[2];
    if (!(devices[1].attr.device_cap_flags & IBV_DEVICE_XRC)) return;
    struct ibv_xrcd *xrcd = ibv_open_xrcd(devices[1].context, &domain);
    must(xrcd != NULL, "ibv_open_xrcd");
    make_end(&a, &devices[0], &(struct options){0});
    make_end(&b, &devices[1], &(struct options){0});
    for (int i = 0; i < 2; i++) srq[i] = make_srq(&devices[1], xrcd, i ? b.send_cq : b.recv_cq, &number[i]);
    // The ends have RC QPs; those of XRC take their places.
    struct ibv_qp *spare_a = a.qp;
    struct ibv_qp *spare_b = b.qp;
    init.send_cq = a.send_cq;
    init.pd = devices[0].pd;
    init.cap = (struct ibv_qp_cap){.max_send_wr = 8, .max_send_sge = 1};
    a.qp = ibv_create_qp_ex(devices[0].context, &init);
    init = (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
    b.qp = ibv_create_qp_ex(devices[1].context, &init);
    must(a.qp != NULL && b.qp != NULL, "XRC QPs");
    struct address address = address_of(&b);
    must(to_init(&a, 0) == 0 && to_rtr(&a, &address) == 0 && to_rts(&a) == 0, "connect");
    address = address_of(&a);
    must(to_init(&b, 0) == 0 && to_rtr(&b, &address) == 0, "connect");
    for (int i = 0; i < 2; i++) {
        b.srq = srq[i];
        must(post_receive(&b, 64 * (uint32_t)(i + 1), 64, 0) == 0, "receive");
    }
    for (int i = 1; i >= 0; i--) {
        must(send_to(&a, number[i]) == 0, "send");
        say_completion("xrc", "send", a.send_cq);
        say_completion("xrc", i ? "receive of the second SRQ" : "receive of the first SRQ", i ? b.send_cq : b.recv_cq);
    }
    // The QP lives as long as any of its handles.
    open.xrcd = xrcd;
    open.qp_num = b.qp->qp_num;
    struct ibv_qp *opened = ibv_open_qp(devices[1].context, &open);
    must(opened != NULL && opened->qp_num == b.qp->qp_num, "ibv_open_qp");
    must(ibv_destroy_qp(b.qp) == 0, "ibv_destroy_qp");
    b.qp = opened;
    must(post_receive(&b, 192, 64, 0) == 0 && send_to(&a, number[1]) == 0, "send");
    say_completion("xrc", "send to an opened QP", a.send_cq);
    say_completion("xrc", "its receive", b.send_cq);
    open.qp_num = a.qp->qp_num;
    must(ibv_open_qp(devices[1].context, &open) == NULL, "the QP of a sender was opened");
    must(send_to(&a, 0xfffffe) == 0, "send");
    say_completion("xrc", "send to no SRQ", a.send_cq);
    must(ibv_destroy_qp(a.qp) == 0 && ibv_destroy_qp(b.qp) == 0, "ibv_destroy_qp");
    for (int i = 0; i < 2; i++) must(ibv_destroy_srq(srq[i]) == 0, "ibv_destroy_srq");
    must(ibv_close_xrcd(xrcd) == 0, "ibv_close_xrcd");
    a.qp = spare_a;
    b.qp = spare_b;
    b.srq = NULL;
    destroy_pair(&a, &b);
}
