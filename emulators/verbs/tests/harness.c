// harness.c: devices, ends and completions for all tests.
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct device devices[2];

// RoCE has no LIDs: the last GID of the table that is in use has the newest type.
static void find_gid(struct device *device) {
    device->global = device->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    for (int i = 0; i < device->port.gid_tbl_len; i++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(device->context, 1, (uint32_t)i, &entry, 0) == 0) {
            device->gid = entry.gid;
            device->gid_index = i;
        }
    }
}

extern bool emu_verbs_step(unsigned milliseconds) __attribute__((weak));
bool step(unsigned milliseconds) { return emu_verbs_step && emu_verbs_step(milliseconds); }

void open_devices(void) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    must(list != NULL && count > 0, "a device");
    for (int i = 0; i < 2; i++) {
        struct device *device = &devices[i];
        device->context = ibv_open_device(list[i % count]);
        must(device->context != NULL, "ibv_open_device");
        must(ibv_query_device(device->context, &device->attr) == 0, "ibv_query_device");
        must(ibv_query_port(device->context, 1, &device->port) == 0, "ibv_query_port");
        device->pd = ibv_alloc_pd(device->context);
        must(device->pd != NULL, "ibv_alloc_pd");
        find_gid(device);
    }
    ibv_free_device_list(list);
}

void make_end(struct end *end, struct device *device, const struct options *options) {
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    int cq_depth = options->cq_depth ? options->cq_depth : 4 * DEPTH;
    struct ibv_qp_init_attr init = {
        .qp_type = options->type ? options->type : IBV_QPT_RC,
        .srq = options->srq,
        .sq_sig_all = options->sig_all,
        .cap = {.max_send_wr = DEPTH,
                .max_recv_wr = DEPTH,
                .max_send_sge = SGES,
                .max_recv_sge = SGES,
                .max_inline_data = INLINE},
    };
    memset(end, 0, sizeof *end);
    end->device = device;
    end->srq = options->srq;
    end->channel = ibv_create_comp_channel(device->context);
    must(end->channel != NULL, "ibv_create_comp_channel");
    end->send_cq = ibv_create_cq(device->context, cq_depth, NULL, NULL, 0);
    end->recv_cq = ibv_create_cq(device->context, cq_depth, end, end->channel, 0);
    must(end->send_cq != NULL && end->recv_cq != NULL, "ibv_create_cq");
    init.send_cq = end->send_cq;
    init.recv_cq = end->recv_cq;
    end->qp = ibv_create_qp(device->pd, &init);
    must(end->qp != NULL, "ibv_create_qp");
    end->buffer = aligned_alloc(4096, BUFFER);
    must(end->buffer != NULL, "memory");
    memset(end->buffer, 0, BUFFER);
    end->mr = ibv_reg_mr(device->pd, end->buffer, BUFFER, options->mr_access ? options->mr_access : access);
    must(end->mr != NULL, "ibv_reg_mr");
    end->psn = end->qp->qp_num * 7 & 0xffffff;
}

void destroy_end(struct end *end) {
    must(ibv_destroy_qp(end->qp) == 0, "ibv_destroy_qp");
    must(ibv_dereg_mr(end->mr) == 0, "ibv_dereg_mr");
    must(ibv_destroy_cq(end->send_cq) == 0, "ibv_destroy_cq");
    must(ibv_destroy_cq(end->recv_cq) == 0, "ibv_destroy_cq");
    must(ibv_destroy_comp_channel(end->channel) == 0, "ibv_destroy_comp_channel");
    free(end->buffer);
}

struct address address_of(const struct end *end) {
    struct address address = {end->device->port.lid, end->qp->qp_num, end->psn, end->device->gid};
    return address;
}

int to_init(struct end *end, int access) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    attr.qp_access_flags = (unsigned)access;
    return ibv_modify_qp(end->qp, &attr, mask | (end->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int to_rtr(struct end *end, const struct address *peer) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer->qpn,
                               .rq_psn = peer->psn,
                               .max_dest_rd_atomic = 4,
                               .min_rnr_timer = 1,
                               .ah_attr = {.dlid = peer->lid, .port_num = 1}};
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    attr.ah_attr.is_global = end->device->global;
    attr.ah_attr.grh.dgid = peer->gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)end->device->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    if (end->qp->qp_type == IBV_QPT_UD) mask = IBV_QP_STATE;
    // The sending end of XRC has no use for them.
    if (end->qp->qp_type != IBV_QPT_UD && end->qp->qp_type != IBV_QPT_UC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(end->qp, &attr, mask);
}

int to_rts(struct end *end) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .sq_psn = end->psn, .timeout = 14, .retry_cnt = 3, .rnr_retry = 2, .max_rd_atomic = 4};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (end->qp->qp_type == IBV_QPT_RC || end->qp->qp_type == IBV_QPT_XRC_SEND)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(end->qp, &attr, mask);
}

static void make_ready(struct end *end, const struct end *peer, int access) {
    struct address address = address_of(peer);
    must(to_init(end, access) == 0, "INIT");
    must(to_rtr(end, &address) == 0, "RTR");
    must(to_rts(end) == 0, "RTS");
}

void connect_pair(struct end *a, struct end *b, const struct options *options) {
    static const struct options usual;
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (!options) options = &usual;
    if (options->qp_access) access = options->qp_access;
    make_end(a, &devices[0], options);
    make_end(b, &devices[1], options);
    make_ready(a, b, access);
    make_ready(b, a, access);
}

void destroy_pair(struct end *a, struct end *b) {
    destroy_end(a);
    destroy_end(b);
}

int post(struct end *end, struct work work) {
    struct ibv_sge sge = {(uintptr_t)end->buffer + work.offset, work.bytes, work.lkey ? work.lkey : end->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = work.id,
                             .sg_list = &sge,
                             .num_sge = work.bytes != 0,
                             .opcode = work.opcode,
                             .send_flags = work.flags,
                             .imm_data = work.imm},
                       *bad = NULL;
    if (work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = work.remote;
        wr.wr.atomic.rkey = work.rkey;
        wr.wr.atomic.compare_add = work.compare_add;
        wr.wr.atomic.swap = work.swap;
    } else {
        wr.wr.rdma.remote_addr = work.remote;
        wr.wr.rdma.rkey = work.rkey;
    }
    return ibv_post_send(end->qp, &wr, &bad);
}

int post_receive(struct end *end, uint32_t offset, uint32_t bytes, uint32_t lkey) {
    struct ibv_sge sge = {(uintptr_t)end->buffer + offset, bytes, lkey ? lkey : end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    return end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad);
}

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static struct ibv_wc wait_until(struct ibv_cq *cq, uint64_t end) {
    struct ibv_wc wc;
    struct timespec pause = {0, 50000};
    memset(&wc, 0, sizeof wc);
    while (ibv_poll_cq(cq, 1, &wc) != 1) {
        if (now_ms() > end) {
            wc.status = (enum ibv_wc_status) - 1;
            break;
        }
        nanosleep(&pause, NULL);
    }
    return wc;
}

struct ibv_wc wait_for(struct ibv_cq *cq) {
    return wait_until(cq, now_ms() + 4000);
}

bool nothing(struct ibv_cq *cq) { return (int)wait_until(cq, now_ms() + 30).status == -1; }

void say_completion(const char *test, const char *what, struct ibv_cq *cq) {
    struct ibv_wc wc = wait_for(cq);
    if ((int)wc.status == -1) {
        say(test, "%s: no completion", what);
    } else if (wc.status != IBV_WC_SUCCESS) {
        say(test, "%s: %s, id %d", what, ibv_wc_status_str(wc.status), (int)wc.wr_id);
    } else if (wc.opcode & IBV_WC_RECV) {
        say(test, "%s: success, id %d, opcode %d, %d bytes, flags %x, imm %x", what, (int)wc.wr_id, wc.opcode,
            (int)wc.byte_len, wc.wc_flags & ~(unsigned)IBV_WC_GRH, wc.wc_flags & IBV_WC_WITH_IMM ? wc.imm_data : 0);
    } else {
        say(test, "%s: success, id %d, opcode %d", what, (int)wc.wr_id, wc.opcode);
    }
}
