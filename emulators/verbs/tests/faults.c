// faults.c: what a program sees of each fault of the emulator; faults.txt has the answers. Without
// faults all is well.
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fault_offers(void) {
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(devices[0].pd, &init);
    struct ibv_cq *cq = ibv_create_cq(devices[0].context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr datagrams = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD};
    struct ibv_qp *qp = ibv_create_qp(devices[0].pd, &datagrams);
    struct ibv_device_attr_ex attr;
    must(qp || errno == EINVAL, "ibv_create_qp");
    must(ibv_query_device_ex(devices[0].context, NULL, &attr) == 0, "ibv_query_device_ex");
    say("offers", "SRQ %s, XRC %s, APM %s, UD %s, atomics %d, ODP %d, messages of %u bytes", srq ? "yes" : "no",
        attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC ? "yes" : "no",
        attr.orig_attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG ? "yes" : "no", qp ? "yes" : "no",
        attr.orig_attr.atomic_cap, (int)(attr.odp_caps.general_caps & IBV_ODP_SUPPORT), devices[0].port.max_msg_sz);
    if (qp) ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    if (srq) ibv_destroy_srq(srq);
}

// Whether a connected QP is made with room for inline data, and for how much.
static void ask_inline(unsigned bytes) {
    struct ibv_cq *cq = ibv_create_cq(devices[0].context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = bytes},
    };
    struct ibv_qp *qp = ibv_create_qp(devices[0].pd, &init);
    if (qp) say("limits", "%u bytes of inline data: room for %u", bytes, init.cap.max_inline_data);
    else say("limits", "%u bytes of inline data: %s", bytes, errno == EINVAL ? "EINVAL" : "no connected QPs");
    if (qp) ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

void fault_limits(void) {
    const struct ibv_device *device = devices[0].context->device;
    const struct ibv_device_attr *attr = &devices[0].attr;
    say("limits", "%s: transport %d, link layer %d", device->name, device->transport_type, devices[0].port.link_layer);
    say("limits", "%d work requests of %d pieces, reads of %d, %d receives of an SRQ, %d completions", attr->max_qp_wr,
        attr->max_sge, attr->max_sge_rd, attr->max_srq_wr, attr->max_cqe);
    say("limits", "%d reads are answered, %d started, regions of %llu bytes", attr->max_qp_rd_atom,
        attr->max_qp_init_rd_atom, (unsigned long long)attr->max_mr_size);
    ask_inline(1024);
    ask_inline(16);
}

void fault_registrations(void) {
    static char memory[4][8192] __attribute__((aligned(4096)));
    struct ibv_mr *mr[4];
    for (int i = 0; i < 4; i++) {
        mr[i] = ibv_reg_mr(devices[0].pd, memory[i], sizeof memory[i], IBV_ACCESS_LOCAL_WRITE);
        if (mr[i] == NULL) say("registrations", "number %d: %s", i + 1, errno == ENOMEM ? "ENOMEM" : "EINVAL");
    }
    for (int i = 0; i < 4; i++)
        if (mr[i]) ibv_dereg_mr(mr[i]);
}

// Memory of the kernel: CPUs read it, but it has no pages that a device may use.
void fault_pages(void) {
    struct ibv_sge sge = {.length = 64};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    unsigned long address = 0;
    char line[256];
    struct end a, b;
    FILE *maps = fopen("/proc/self/maps", "r");
    must(maps != NULL, "/proc/self/maps");
    while (address == 0 && fgets(line, sizeof line, maps))
        if (strstr(line, "[vvar]")) sscanf(line, "%lx", &address);
    fclose(maps);
    must(address != 0, "[vvar]");
    struct ibv_mr *mr = ibv_reg_mr(devices[0].pd, (void *)address, 64, 0);
    say("pages", "registered: %s", mr ? "yes" : errno == EFAULT ? "EFAULT" : "no");
    if (mr) ibv_dereg_mr(mr);
    struct ibv_mr *all = ibv_reg_mr(devices[0].pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
    must(all != NULL, "ibv_reg_mr");
    connect_pair(&a, &b, NULL);
    sge.addr = address;
    sge.lkey = all->lkey;
    wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
    wr.wr.rdma.rkey = b.mr->rkey;
    must(ibv_post_send(a.qp, &wr, &bad) == 0, "post");
    say("pages", "on demand: %s", ibv_wc_status_str(wait_for(a.send_cq).status));
    destroy_pair(&a, &b);
    ibv_dereg_mr(all);
}

// The first of some messages or writes that fails.
static void messages(const char *name, enum ibv_wr_opcode opcode) {
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    struct end a, b;
    connect_pair(&a, &b, NULL);
    for (int i = 1; i <= 6 && wc.status == IBV_WC_SUCCESS; i++) {
        must(post_receive(&b, 0, 64, 0) == 0, "receive");
        must(post(&a, (struct work){.opcode = opcode,
                                    .bytes = 8,
                                    .remote = (uintptr_t)b.buffer,
                                    .rkey = b.mr->rkey,
                                    .flags = IBV_SEND_SIGNALED}) == 0,
             "post");
        wc = wait_for(a.send_cq);
        if (wc.status != IBV_WC_SUCCESS) say(name, "number %d: %s", i, ibv_wc_status_str(wc.status));
    }
    if (wc.status == IBV_WC_SUCCESS) say(name, "all good");
    destroy_pair(&a, &b);
}

void fault_datagrams(void) {
    struct options options = {.type = IBV_QPT_UD};
    struct ibv_ah_attr attr = {.dlid = devices[1].port.lid, .port_num = 1, .is_global = devices[1].global};
    struct end a, b;
    uint32_t arrived = 0, last = 0, ordered = 1;
    attr.grh.dgid = devices[1].gid;
    attr.grh.sgid_index = (uint8_t)devices[0].gid_index;
    attr.grh.hop_limit = 1;
    connect_pair(&a, &b, &options);
    struct ibv_ah *ah = ibv_create_ah(devices[0].pd, &attr);
    must(ah != NULL, "ibv_create_ah");
    for (uint32_t i = 0; i < 8; i++) must(post_receive(&b, 128 * i, 128, 0) == 0, "receive");
    for (uint32_t i = 0; i < 4; i++) {
        struct ibv_sge sge = {(uintptr_t)a.buffer, 8, a.mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND_WITH_IMM,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .imm_data = i + 1},
                           *bad;
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = b.qp->qp_num;
        wr.wr.ud.remote_qkey = 0x1234;
        must(ibv_post_send(a.qp, &wr, &bad) == 0, "post");
        must(wait_for(a.send_cq).status == IBV_WC_SUCCESS, "datagram");
    }
    for (;;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(b.recv_cq, 1, &wc) != 1) {
            usleep(300000);
            if (ibv_poll_cq(b.recv_cq, 1, &wc) != 1) break;
        }
        arrived++;
        if (wc.imm_data < last) ordered = 0;
        last = wc.imm_data;
    }
    say("datagrams", "%d of 4, %s", (int)arrived, ordered ? "in order" : "out of order");
    ibv_destroy_ah(ah);
    destroy_pair(&a, &b);
}

// A buffer that is overwritten before the completion.
void fault_reuse(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    strcpy((char *)a.buffer, "old");
    must(post(&a, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                .bytes = 4,
                                .remote = (uintptr_t)b.buffer,
                                .rkey = b.mr->rkey,
                                .flags = IBV_SEND_SIGNALED}) == 0,
         "write");
    strcpy((char *)a.buffer, "new");
    say("reuse", "at the target before the completion: %s", b.buffer[0] ? "something" : "nothing");
    must(wait_for(a.send_cq).status == IBV_WC_SUCCESS, "write");
    say("reuse", "a buffer that is overwritten before the completion sends the %s data", b.buffer);
    destroy_pair(&a, &b);
}

// A write of what a read brings needs a fence. Whether the write sent what was in the buffer
// before.
static bool overtakes(unsigned fence) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    strcpy((char *)a.buffer, "old");
    strcpy((char *)b.buffer, "new");
    must(post(&a, (struct work){.opcode = IBV_WR_RDMA_READ,
                                .bytes = 4,
                                .remote = (uintptr_t)b.buffer,
                                .rkey = b.mr->rkey,
                                .flags = IBV_SEND_SIGNALED}) == 0,
         "read");
    must(post(&a, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                .bytes = 4,
                                .remote = (uintptr_t)b.buffer + 64,
                                .rkey = b.mr->rkey,
                                .flags = IBV_SEND_SIGNALED | fence}) == 0,
         "write");
    must(wait_for(a.send_cq).opcode == IBV_WC_RDMA_READ, "the read completes first");
    must(wait_for(a.send_cq).status == IBV_WC_SUCCESS, "write");
    bool old = strcmp((char *)b.buffer + 64, "old") == 0;
    destroy_pair(&a, &b);
    return old;
}

void fault_fences(void) {
    int without = 0, with = 0;
    for (int i = 0; i < 10; i++) {
        without += overtakes(0);
        with += overtakes(IBV_SEND_FENCE);
    }
    say("fences", "writes that overtook a read: %s without a fence, %s with one", without ? "some" : "none",
        with ? "some" : "none");
}

// Writes to the begin of a region.
static struct ibv_wc write_to(struct end *end, const struct ibv_mr *mr) {
    must(post(end, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                 .bytes = 4,
                                 .remote = (uintptr_t)mr->addr,
                                 .rkey = mr->rkey,
                                 .flags = IBV_SEND_SIGNALED}) == 0,
         "write");
    return wait_for(end->send_cq);
}

// The emulator learns of the change a little later, so the write is tried a few times.
void fault_unmapped(void) {
    struct end a, b;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    connect_pair(&a, &b, NULL);
    struct ibv_mr *mr = ibv_reg_mr(devices[1].pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(mr != NULL, "ibv_reg_mr");
    must(mmap(memory, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory, "mmap");
    for (int i = 0; i < 10 && wc.status == IBV_WC_SUCCESS; i++) {
        usleep(20000);
        wc = write_to(&a, mr);
    }
    say("unmapped", "write to memory that was mapped anew: %s", ibv_wc_status_str(wc.status));
    ibv_dereg_mr(mr);
    destroy_pair(&a, &b);
    munmap(memory, 4096);
}

// Maps memory, registers it, writes to it, and unmaps it, many times. The result: the first status
// that is not success.
static void *map_and_write(void *status) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    for (int i = 0; i < 300 && *(enum ibv_wc_status *)status == IBV_WC_SUCCESS; i++) {
        void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(memory != MAP_FAILED, "mmap");
        struct ibv_mr *mr = ibv_reg_mr(devices[1].pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        must(mr != NULL, "ibv_reg_mr");
        usleep(100);
        *(enum ibv_wc_status *)status = write_to(&a, mr).status;
        ibv_dereg_mr(mr);
        munmap(memory, 4096);
    }
    destroy_pair(&a, &b);
    return NULL;
}

// Threads map and register addresses that others have just unmapped.
void fault_remapped(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    enum ibv_wc_status statuses[THREADS] = {IBV_WC_SUCCESS}, first = IBV_WC_SUCCESS;
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, map_and_write, &statuses[i]) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (first == IBV_WC_SUCCESS) first = statuses[i];
    }
    say("remapped", "writes to memory that was registered after it was mapped anew: %s", ibv_wc_status_str(first));
}

// Asynchronous events until the port is up again or the device has failed.
void fault_events(void) {
    struct pollfd wait = {devices[0].context->async_fd, POLLIN, 0};
    struct ibv_async_event event;
    struct ibv_port_attr port;
    event.event_type = IBV_EVENT_PORT_ERR;
    while (event.event_type == IBV_EVENT_PORT_ERR && (step(1000), poll(&wait, 1, 5000) == 1)) {
        must(ibv_get_async_event(devices[0].context, &event) == 0, "ibv_get_async_event");
        int queried = ibv_query_port(devices[0].context, 1, &port);
        must(queried == 0 || event.event_type == IBV_EVENT_DEVICE_FATAL, "ibv_query_port");
        if (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE) {
            say("events", "port %d: %s, its state: %s", event.element.port_num, ibv_event_type_str(event.event_type),
                ibv_port_state_str(port.state));
            messages(event.event_type == IBV_EVENT_PORT_ERR ? "while the port is down" : "afterwards", IBV_WR_SEND);
        } else if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
            say("events", "%s, then %s", ibv_event_type_str(event.event_type), queried == EIO ? "EIO" : "no EIO");
        }
        ibv_ack_async_event(&event);
    }
    if (poll(&wait, 1, 500) == 1 && wait.revents & POLLHUP) {
        must(ibv_get_async_event(devices[0].context, &event) == -1, "ibv_get_async_event");
        say("events", "the descriptor hangs up: %s", errno == EIO ? "EIO" : "no EIO");
    }
}

/* The longest send queue, and its room for inline data, if as much is asked for. */
void fault_footprint(void) {
    struct ibv_cq *cq = ibv_create_cq(devices[0].context, 1, NULL, NULL, 0);
    must(cq != NULL, "ibv_create_cq");
    for (int inline_data = 60; inline_data <= 72; inline_data += 12) {
        struct ibv_qp_init_attr init;
        struct ibv_qp *qp = NULL;
        for (int depth = 1 << 14; qp == NULL && depth > 0; depth /= 2) {
            memset(&init, 0, sizeof init);
            init.send_cq = init.recv_cq = cq;
            init.qp_type = IBV_QPT_RC;
            init.cap.max_send_wr = depth;
            init.cap.max_send_sge = 2;
            init.cap.max_inline_data = inline_data;
            qp = ibv_create_qp(devices[0].pd, &init);
        }
        must(qp != NULL, "ibv_create_qp");
        say("footprint", "inline %d: %u work requests, room for %u bytes", inline_data, init.cap.max_send_wr,
            init.cap.max_inline_data);
        ibv_destroy_qp(qp);
    }
    ibv_destroy_cq(cq);
}

void fault_messages(void) {
    messages("sends", IBV_WR_SEND);
    messages("writes", IBV_WR_RDMA_WRITE);
    messages("reads", IBV_WR_RDMA_READ);
}
