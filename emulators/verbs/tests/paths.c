// paths.c: what a port says of itself, and which paths of QPs its device accepts.
#include "harness.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char *result(int error) { return error == 0 ? "ok" : error == EINVAL ? "EINVAL" : "another error"; }

static int init_with(struct ibv_qp *qp, int pkey_index) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = (uint16_t)pkey_index};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

// Connects a QP in INIT, and resets it to INIT.
static const char *connection(struct ibv_qp *qp, struct ibv_ah_attr vector, enum ibv_mtu mtu) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = qp->qp_num, .ah_attr = vector};
    const char *text = result(ibv_modify_qp(qp, &attr,
                                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr.qp_state = IBV_QPS_RESET;
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0 && init_with(qp, 0) == 0, "RESET");
    return text;
}

static void say_port(struct ibv_context *context) {
    struct ibv_port_attr port;
    struct ibv_device_attr attr;
    union ibv_gid gid;
    uint16_t key = 0;
    must(ibv_query_device(context, &attr) == 0, "ibv_query_device");
    if (attr.phys_port_cnt > 1 && ibv_query_port(context, 2, &port) != 0) say("paths", "port 2 cannot be queried");
    must(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
    say("paths", "GUID %s, LID %s, LMC %d, MTU %d, global header %s", attr.node_guid ? "yes" : "no",
        port.lid ? "yes" : "no", port.lmc, 128 << port.active_mtu, port.flags & 1 ? "required" : "optional");
    for (int i = 0; ibv_query_pkey(context, 1, i, &key) == 0; i++)
        say("paths", "partition key %d: %#x", i, be16toh(key));
    for (int i = 0; i < 4; i++) {
        struct ibv_gid_entry entry;
        must(ibv_query_gid(context, 1, i, &gid) == 0, "ibv_query_gid");
        int error = ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0);
        unsigned long long prefix = be64toh(gid.global.subnet_prefix), rest = be64toh(gid.global.interface_id);
        if (error) say("paths", "GID %d: %llx %llx, %s", i, prefix, rest, error == EINVAL ? "EINVAL" : "none");
        else say("paths", "GID %d: %llx %llx, type %d", i, prefix, rest, (int)entry.gid_type);
    }
}

// A registration of 3 pages of 4 KiB, which are no whole huge page.
static const char *registration(struct ibv_pd *pd) {
    char *memory = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
    const char *text = mr ? "ok" : result(errno);
    if (mr) ibv_dereg_mr(mr);
    munmap(memory, 12288);
    return text;
}

void fault_paths(void) {
    struct ibv_context *context = ibv_open_device(devices[0].context->device);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_ah_attr vector = {.dlid = devices[0].port.lid, .port_num = 1}, other = vector;
    init.cap = (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    must(qp != NULL, "ibv_create_qp");
    say_port(context);
    say("paths", "partition key index 9: %s", result(init_with(qp, 9)));
    must(init_with(qp, 0) == 0, "INIT");
    other.src_path_bits = 1;
    say("paths", "LID 1 of the port: %s", connection(qp, other, IBV_MTU_256));
    say("paths", "MTU 4096: %s", connection(qp, vector, IBV_MTU_4096));
    say("paths", "no global header: %s", connection(qp, vector, IBV_MTU_256));
    say("paths", "registration before ibv_fork_init: %s", registration(pd));
    must(ibv_fork_init() == 0, "ibv_fork_init");
    say("paths", "registration after it: %s", registration(pd));
    must(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0, "end");
    ibv_close_device(context);
}
