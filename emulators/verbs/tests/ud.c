// ud.c: datagrams.
#include "harness.h"

#include <string.h>

static struct ibv_ah *handle(struct end *from, struct end *to) {
    struct ibv_ah_attr attr = {.dlid = to->device->port.lid, .port_num = 1, .is_global = from->device->global};
    attr.grh.dgid = to->device->gid;
    attr.grh.sgid_index = (uint8_t)from->device->gid_index;
    attr.grh.hop_limit = 64;
    struct ibv_ah *ah = ibv_create_ah(from->device->pd, &attr);
    must(ah != NULL, "ibv_create_ah");
    return ah;
}

static int send_to(struct end *from, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint32_t bytes, uint64_t id) {
    struct ibv_sge sge = {(uintptr_t)from->buffer, bytes, from->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    return ibv_post_send(from->qp, &wr, &bad);
}

void test_ud(void) {
    struct options options = {.type = IBV_QPT_UD};
    struct end a, b;
    connect_pair(&a, &b, &options);
    struct ibv_ah *ah = handle(&a, &b);
    strcpy((char *)a.buffer, "datagram");
    must(send_to(&a, ah, b.qp->qp_num, 0x1234, 9, 1) == 0, "send");
    say_completion("ud", "send without a receive", a.send_cq);
    must(post_receive(&b, 0, 256, 0) == 0 && post_receive(&b, 256, 256, 0) == 0, "receive");
    must(send_to(&a, ah, b.qp->qp_num, 0x4321, 9, 2) == 0, "send");
    say_completion("ud", "send with a wrong Q_Key", a.send_cq);
    must(send_to(&a, ah, 0xfffffe, 0x1234, 9, 3) == 0, "send");
    say_completion("ud", "send to no QP", a.send_cq);
    say("ud", "arrived: %s", nothing(b.recv_cq) ? "none" : "some");
    must(send_to(&a, ah, b.qp->qp_num, 0x1234, 9, 4) == 0, "send");
    say_completion("ud", "send", a.send_cq);
    struct ibv_wc wc = wait_for(b.recv_cq);
    say("ud", "receive: %s, %d bytes, id %d, source QP: %s", ibv_wc_status_str(wc.status), (int)wc.byte_len,
        (int)wc.wr_id, wc.src_qp == a.qp->qp_num ? "right" : "wrong");
    say("ud", "behind the header: %s", b.buffer + 40);
    struct ibv_ah *back = handle(&b, &a);
    must(post_receive(&a, 512, 256, 0) == 0, "receive");
    must(send_to(&b, back, wc.src_qp, 0x1234, 16, 5) == 0, "answer");
    say_completion("ud", "answer", b.send_cq);
    say_completion("ud", "its receive", a.recv_cq);
    must(send_to(&a, ah, b.qp->qp_num, 0x1234, 4097, 6) == 0, "send");
    wc = wait_for(a.send_cq);
    say("ud", "longer than the MTU: %s", wc.status == IBV_WC_SUCCESS ? "success" : "error");
    must(ibv_destroy_ah(ah) == 0 && ibv_destroy_ah(back) == 0, "ibv_destroy_ah");
    destroy_pair(&a, &b);
}
