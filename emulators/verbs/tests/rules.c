// rules.c: single rules of devices that options of the emulator change.
#include "harness.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(int error) {
    static const struct {
        int error;
        const char *name;
    } names[] = {{0, "ok"}, {EINVAL, "EINVAL"}, {EFAULT, "EFAULT"}, {ENOMEM, "ENOMEM"}, {EIO, "EIO"}, {EBUSY, "EBUSY"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) return names[i].name;
    return "another error";
}

static const char *made(const void *object) { return name_of(object ? 0 : errno); }
static const char *asked(int result) { return name_of(result == -1 ? errno : result); }

// Calls on a device that has failed.
void fault_failed(void) {
    struct device *device = &devices[0];
    struct ibv_context *context = device->context;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = 0};
    struct ibv_ah_attr vector = {.dlid = device->port.lid, .port_num = 1};
    struct ibv_device_attr_ex attr;
    struct ibv_gid_entry entry;
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct end a, b;
    uint16_t key;
    connect_pair(&a, &b, NULL);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_ah *ah = ibv_create_ah(device->pd, &vector);
    struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &domain);
    struct ibv_srq *srq = ibv_create_srq(device->pd, &init);
    must(pd && ah && xrcd && srq, "objects");
    must(step(1000), "steps");
    say("failed", "ibv_query_device: %s", asked(ibv_query_device(context, &attr.orig_attr)));
    say("failed", "ibv_query_device_ex: %s", asked(ibv_query_device_ex(context, NULL, &attr)));
    say("failed", "ibv_query_port: %s", asked(ibv_query_port(context, 1, &port)));
    say("failed", "ibv_query_gid: %s", asked(ibv_query_gid(context, 1, 0, &gid)));
    say("failed", "ibv_query_gid_ex: %s", asked(ibv_query_gid_ex(context, 1, 0, &entry, 0)));
    say("failed", "ibv_query_pkey: %s", asked(ibv_query_pkey(context, 1, 0, &key)));
    say("failed", "ibv_post_send: %s", name_of(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 1})));
    say("failed", "ibv_post_recv: %s", name_of(post_receive(&a, 0, 1, 0)));
    say("failed", "ibv_reg_mr: %s", made(ibv_reg_mr(device->pd, a.buffer, 1, 0)));
    say("failed", "ibv_alloc_pd: %s", made(ibv_alloc_pd(context)));
    say("failed", "ibv_create_comp_channel: %s", made(ibv_create_comp_channel(context)));
    say("failed", "ibv_create_cq: %s", made(ibv_create_cq(context, 4, NULL, NULL, 0)));
    say("failed", "ibv_create_srq: %s", made(ibv_create_srq(device->pd, &init)));
    say("failed", "ibv_open_xrcd: %s", made(ibv_open_xrcd(context, &domain)));
    say("failed", "ibv_create_ah: %s", made(ibv_create_ah(device->pd, &vector)));
    say("failed", "ibv_open_device: %s", made(ibv_open_device(context->device)));
    say("failed", "ibv_destroy_ah: %s", name_of(ibv_destroy_ah(ah)));
    say("failed", "ibv_destroy_srq: %s", name_of(ibv_destroy_srq(srq)));
    say("failed", "ibv_close_xrcd: %s", name_of(ibv_close_xrcd(xrcd)));
    say("failed", "ibv_dealloc_pd: %s", name_of(ibv_dealloc_pd(pd)));
    say("failed", "ibv_destroy_qp: %s", name_of(ibv_destroy_qp(a.qp)));
    say("failed", "ibv_dereg_mr: %s", name_of(ibv_dereg_mr(a.mr)));
    say("failed", "ibv_destroy_cq: %s", name_of(ibv_destroy_cq(a.send_cq)));
    say("failed", "ibv_destroy_cq: %s", name_of(ibv_destroy_cq(a.recv_cq)));
    int last = ibv_destroy_comp_channel(a.channel);
    say("failed", "ibv_destroy_comp_channel: %s", name_of(last));
    destroy_end(&b);
    // The domain of the device cannot be destroyed either.
    if (last != 0) exit(0);
}

static void say_port(const char *when) {
    struct ibv_port_attr port;
    uint16_t key = 0;
    must(ibv_query_port(devices[0].context, 1, &port) == 0, "ibv_query_port");
    must(ibv_query_pkey(devices[0].context, 1, 0, &key) == 0, "ibv_query_pkey");
    say("changes", "%s: LID %d, partition key %#x", when, port.lid, be16toh(key));
}

static void exchange(const char *when, struct end *a, struct end *b) {
    must(post_receive(b, 0, 64, 0) == 0, "receive");
    must(post(a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .flags = IBV_SEND_SIGNALED}) == 0, "post");
    say("changes", "message %s: %s", when, ibv_wc_status_str(wait_for(a->send_cq).status));
}

// A port whose attributes change under a connection.
void fault_changes(void) {
    struct pollfd wait = {devices[0].context->async_fd, POLLIN, 0};
    struct ibv_async_event event;
    struct end a, b;
    connect_pair(&a, &b, NULL);
    say_port("at first");
    exchange("at first", &a, &b);
    must(step(1000), "steps");
    while (poll(&wait, 1, 500) == 1) {
        must(ibv_get_async_event(devices[0].context, &event) == 0, "ibv_get_async_event");
        say("changes", "event of port %d: %s", event.element.port_num, ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    }
    say_port("then");
    exchange("then", &a, &b);
    destroy_pair(&a, &b);
}

// LIDs of both devices.
void fault_lids(void) { say("lids", "%d and %d", devices[0].port.lid, devices[1].port.lid); }

static void paged(const char *name, struct work work, bool is_remote) {
    int access = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    struct end a, b;
    connect_pair(&a, &b, NULL);
    struct ibv_mr *mr = is_remote ? ibv_reg_mr(devices[1].pd, b.buffer, BUFFER, access)
                                  : ibv_reg_mr(devices[0].pd, a.buffer, BUFFER, access);
    must(mr != NULL, "ibv_reg_mr");
    must(post_receive(&b, 64, 64, 0) == 0, "receive");
    work.bytes = 8;
    work.flags = IBV_SEND_SIGNALED;
    work.lkey = is_remote ? 0 : mr->lkey;
    work.rkey = is_remote ? mr->rkey : b.mr->rkey;
    work.remote = (uintptr_t)b.buffer;
    must(post(&a, work) == 0, "post");
    say("odp", "%s: %s", name, ibv_wc_status_str(wait_for(a.send_cq).status));
    ibv_dereg_mr(mr);
    destroy_pair(&a, &b);
}

// Paging on demand: operations from and to such memory, and a region of all memory.
void fault_odp(void) {
    struct ibv_mr *all = ibv_reg_mr(devices[0].pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
    say("odp", "all memory: %s", made(all));
    if (all) ibv_dereg_mr(all);
    paged("send", (struct work){.opcode = IBV_WR_SEND}, false);
    paged("write", (struct work){.opcode = IBV_WR_RDMA_WRITE}, false);
    paged("read", (struct work){.opcode = IBV_WR_RDMA_READ}, false);
    paged("atomic", (struct work){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, false);
    paged("atomic at the target", (struct work){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, true);
}

// The longest receive queue.
void fault_receives(void) {
    struct ibv_cq *cq = ibv_create_cq(devices[0].context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_qp *qp;
    must(cq != NULL, "ibv_create_cq");
    for (init.cap.max_recv_wr = 8; init.cap.max_recv_wr < 10; init.cap.max_recv_wr++) {
        init.cap.max_send_wr = 100;
        init.cap.max_send_sge = init.cap.max_recv_sge = 1;
        qp = ibv_create_qp(devices[0].pd, &init);
        say("receives", "%u receives: %s", init.cap.max_recv_wr, made(qp));
        if (qp) ibv_destroy_qp(qp);
    }
    init.cap.max_recv_wr = 9;
    init.srq = ibv_create_srq(devices[0].pd, &shared);
    must(init.srq != NULL, "ibv_create_srq");
    qp = ibv_create_qp(devices[0].pd, &init);
    say("receives", "9 receives beside an SRQ: %s", made(qp));
    if (qp) ibv_destroy_qp(qp);
    ibv_destroy_srq(init.srq);
    ibv_destroy_cq(cq);
}

static void kind(const char *name, void *memory) {
    struct ibv_mr *mr = ibv_reg_mr(devices[0].pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    say("kinds", "%s: %s", name, made(mr));
    if (mr) ibv_dereg_mr(mr);
}

// A Q_Key for privileged processes.
void fault_qkey(void) {
    struct options options = {.type = IBV_QPT_UD};
    struct ibv_qp_attr attr = {.qkey = 0x80000001};
    struct end a, b;
    connect_pair(&a, &b, &options);
    int result = ibv_modify_qp(a.qp, &attr, IBV_QP_QKEY);
    say("qkey", "0x80000001: %s", result == EPERM ? "EPERM" : name_of(result));
    destroy_pair(&a, &b);
}

// Kinds of memory.
void fault_kinds(void) {
    static char variable[64] = "initialised";
    char stack[64];
    void *heap = malloc(64);
    must(heap != NULL, "malloc");
    kind("stack", stack);
    kind("heap", heap);
    kind("variable", variable);
    free(heap);
}

// Calls that may fail.
void fault_calls(void) {
    for (int i = 0; i < 2; i++) {
        struct ibv_context *context = ibv_open_device(devices[0].context->device);
        say("calls", "ibv_open_device: %s", made(context));
        if (context) ibv_close_device(context);
    }
    for (int i = 0; i < 2; i++) say("calls", "ibv_fork_init: %s", name_of(ibv_fork_init()));
}
