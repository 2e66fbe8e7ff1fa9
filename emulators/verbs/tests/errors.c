// errors.c: each mistake on a connection of its own, and what both ends learn.
#include "harness.h"

#include <poll.h>
#include <string.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int state(struct end *end) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
    return attr.qp_state;
}

// Takes asynchronous events away, which differ between devices.
static void drain_events(void) {
    for (int i = 0; i < 2; i++) {
        struct pollfd wait = {devices[i].context->async_fd, POLLIN, 0};
        struct ibv_async_event event;
        while (poll(&wait, 1, 0) == 1 && ibv_get_async_event(devices[i].context, &event) == 0)
            ibv_ack_async_event(&event);
    }
}

static void finish(const char *name, struct end *a, struct end *b) {
    say("errors", "%s: states afterwards %d, %d", name, state(a), state(b));
    drain_events();
    destroy_pair(a, b);
}

// An operation that is refused; the one behind it is flushed. A device may refuse already the post.
static void refused(const char *name, const struct options *options, struct work work, bool receive) {
    struct end a, b;
    connect_pair(&a, &b, options);
    if (receive) must(post_receive(&b, 0, 64, 0) == 0, "receive");
    if (work.rkey == 0) work.rkey = b.mr->rkey;
    work.remote += (uintptr_t)b.buffer;
    work.id = 1;
    if (post(&a, work) != 0) {
        say("errors", "%s: refused by the post", name);
    } else {
        must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 1, .id = 2}) == 0, name);
        say_completion("errors", name, a.send_cq);
        say_completion("errors", "  behind it", a.send_cq);
    }
    finish(name, &a, &b);
}

static void operations(void) {
    struct work write = {.opcode = IBV_WR_RDMA_WRITE, .bytes = 16};
    struct work read = {.opcode = IBV_WR_RDMA_READ, .bytes = 16};
    struct work add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8};
    struct work work;
    struct options no_remote = {.mr_access = IBV_ACCESS_LOCAL_WRITE}, no_qp = {.qp_access = IBV_ACCESS_LOCAL_WRITE};
    struct options read_only = {.mr_access = IBV_ACCESS_REMOTE_READ};
    refused("write with a key that nobody has", NULL, (work = write, work.rkey = 0x7fff00, work), false);
    refused("write beyond the end", NULL, (work = write, work.remote = BUFFER - 15, work), false);
    refused("write before the beginning", NULL, (work = write, work.remote = (uint64_t)-1, work), false);
    refused("write to memory without remote write", &no_remote, write, false);
    refused("write to a QP without remote write", &no_qp, write, false);
    refused("read of memory without remote read", &no_remote, read, false);
    refused("read of a QP without remote read", &no_qp, read, false);
    refused("read into memory without local write", &read_only, read, false);
    refused("local key that nobody has", NULL, (work = write, work.lkey = 0x7fff00, work), false);
    refused("local memory beyond the end", NULL, (work = write, work.offset = BUFFER - 15, work), false);
    if (devices[0].attr.atomic_cap != IBV_ATOMIC_NONE) {
        refused("atomic on an address that is not aligned", NULL, (work = add, work.remote = 4, work), false);
        refused("atomic on memory without remote atomic", &no_remote, add, false);
    }
    refused("send longer than the receive", NULL, (struct work){.opcode = IBV_WR_SEND, .bytes = 65}, true);
    refused("send without a receive", NULL, (struct work){.opcode = IBV_WR_SEND, .bytes = 1}, false);
}

static void receivers(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    must(post_receive(&b, 0, 64, 0x7fff00) == 0, "receive");
    must(post_receive(&b, 64, 64, 0) == 0, "receive");
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("errors", "receive with a wrong key: sender", a.send_cq);
    say_completion("errors", "receive with a wrong key: receiver", b.recv_cq);
    say_completion("errors", "  behind it", b.recv_cq);
    finish("receive with a wrong key", &a, &b);
    connect_pair(&a, &b, NULL);
    must(post_receive(&b, 0, 4, 0) == 0, "receive");
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("errors", "receive that is too short: sender", a.send_cq);
    say_completion("errors", "receive that is too short: receiver", b.recv_cq);
    finish("receive that is too short", &a, &b);
}

static void silence(void) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct end a, b;
    connect_pair(&a, &b, NULL);
    must(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE) == 0, "ERR");
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("errors", "send to a QP in ERR", a.send_cq);
    finish("send to a QP in ERR", &a, &b);
    // A QP that is connected to another one.
    struct end c;
    connect_pair(&a, &b, NULL);
    make_end(&c, &devices[0], &(struct options){0});
    c.psn = a.psn;
    struct address address = address_of(&b);
    must(to_init(&c, ALL) == 0 && to_rtr(&c, &address) == 0 && to_rts(&c) == 0, "connect");
    must(post_receive(&b, 0, 64, 0) == 0, "receive");
    must(post(&c, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("errors", "send to a QP of another connection", c.send_cq);
    say("errors", "its receive: %s", nothing(b.recv_cq) ? "none" : "some");
    destroy_end(&c);
    destroy_pair(&a, &b);
    // Both ends must agree on the first packet number.
    make_end(&a, &devices[0], &(struct options){0});
    make_end(&b, &devices[1], &(struct options){0});
    address = address_of(&b);
    must(to_init(&a, ALL) == 0 && to_rtr(&a, &address) == 0 && to_rts(&a) == 0, "connect");
    address = address_of(&a);
    address.psn = (address.psn + 1000000) & 0xffffff;
    must(to_init(&b, ALL) == 0 && to_rtr(&b, &address) == 0 && to_rts(&b) == 0, "connect");
    must(post_receive(&b, 0, 64, 0) == 0, "receive");
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("errors", "packet numbers that do not fit", a.send_cq);
    destroy_pair(&a, &b);
}

// Unsignalled work completes with what is behind it.
static void unsignalled(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    must(post_receive(&b, 0, 64, 0) == 0, "receive");
    must(post(&a, (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                .bytes = 8,
                                .remote = (uintptr_t)b.buffer,
                                .rkey = b.mr->rkey,
                                .id = 1}) == 0,
         "write");
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .id = 2, .flags = IBV_SEND_SIGNALED}) == 0, "send");
    say_completion("errors", "unsignalled work in front of a send", a.send_cq);
    destroy_pair(&a, &b);
}

void test_errors(void) {
    operations();
    receivers();
    silence();
    unsignalled();
}
