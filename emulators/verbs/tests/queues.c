// queues.c: limits of queues, notification, overrun.
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

static const char *name(int result) {
    return result == 0 ? "ok" : result == EINVAL ? "EINVAL" : result == ENOMEM ? "ENOMEM" : "another error";
}

static void limits(void) {
    struct ibv_sge list[SGES + 1];
    struct ibv_send_wr wr = {.sg_list = list, .num_sge = SGES + 1, .opcode = IBV_WR_SEND}, *bad = NULL;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct end a, b;
    int posted, result = 0;
    connect_pair(&a, &b, NULL);
    must(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init) == 0, "ibv_query_qp");
    say("queues", "at least what was asked for: %s",
        attr.cap.max_send_wr >= DEPTH && attr.cap.max_inline_data >= INLINE && attr.cap.max_send_sge >= SGES ? "yes"
                                                                                                             : "no");
    for (int i = 0; i <= SGES; i++) list[i] = (struct ibv_sge){(uintptr_t)a.buffer, 1, a.mr->lkey};
    if (attr.cap.max_send_sge == SGES) {
        say("queues", "too many SGEs: %s", name(ibv_post_send(a.qp, &wr, &bad)));
        say("queues", "the refused one is named: %s", bad == &wr ? "yes" : "no");
    }
    say("queues", "inline data that are too long: %s",
        name(post(&a, (struct work){
                          .opcode = IBV_WR_SEND, .bytes = attr.cap.max_inline_data + 1, .flags = IBV_SEND_INLINE})));
    // Only polled completions make room: unsignalled work requests fill the queue.
    for (posted = 0; posted < 100000 && result == 0; posted++)
        result = post(
            &a,
            (struct work){.opcode = IBV_WR_RDMA_WRITE, .bytes = 8, .remote = (uintptr_t)b.buffer, .rkey = b.mr->rkey});
    say("queues", "full send queue: %s, after all of its length: %s", name(result),
        posted - 1 >= (int)attr.cap.max_send_wr ? "yes" : "no");
    result = 0;
    for (posted = 0; posted < 100000 && result == 0; posted++) result = post_receive(&b, 0, 8, 0);
    say("queues", "full receive queue: %s, after all of its length: %s", name(result),
        posted - 1 >= DEPTH ? "yes" : "no");
    destroy_pair(&a, &b);
}

static bool readable(int descriptor, int ms) {
    struct pollfd wait = {descriptor, POLLIN, 0};
    return poll(&wait, 1, ms) == 1;
}

static void take_event(struct end *end) {
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    must(ibv_get_cq_event(end->channel, &cq, &context) == 0, "ibv_get_cq_event");
    say("queues", "event of the right CQ: %s", cq == end->recv_cq && context == end ? "yes" : "no");
    ibv_ack_cq_events(cq, 1);
}

static void send(struct end *a, uint32_t flags) {
    must(post(a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .flags = IBV_SEND_SIGNALED | flags}) == 0, "send");
    must(wait_for(a->send_cq).status == IBV_WC_SUCCESS, "send");
}

static void notification(void) {
    struct ibv_cq *cq;
    void *context;
    struct end a, b;
    connect_pair(&a, &b, NULL);
    int descriptor = b.channel->fd;
    for (int i = 0; i < 6; i++) must(post_receive(&b, 0, 64, 0) == 0, "receive");
    send(&a, 0);
    say("queues", "event without being asked for: %s", readable(descriptor, 20) ? "yes" : "no");
    must(ibv_req_notify_cq(b.recv_cq, 0) == 0, "ibv_req_notify_cq");
    send(&a, 0);
    say("queues", "event: %s", readable(descriptor, 2000) ? "yes" : "no");
    take_event(&b);
    send(&a, 0);
    say("queues", "second event for one request: %s", readable(descriptor, 20) ? "yes" : "no");
    must(ibv_req_notify_cq(b.recv_cq, 1) == 0, "ibv_req_notify_cq");
    send(&a, 0);
    say("queues", "event for what is not solicited: %s", readable(descriptor, 20) ? "yes" : "no");
    send(&a, IBV_SEND_SOLICITED);
    say("queues", "event for what is solicited: %s", readable(descriptor, 2000) ? "yes" : "no");
    take_event(&b);
    must(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0, "O_NONBLOCK");
    must(ibv_get_cq_event(b.channel, &cq, &context) == -1, "no event");
    say("queues", "no event on a descriptor that does not block: %s", errno == EAGAIN ? "EAGAIN" : "another error");
    for (int i = 0; i < 5; i++) say_completion("queues", "receive", b.recv_cq);
    destroy_pair(&a, &b);
}

static void overrun(void) {
    struct options small = {.cq_depth = 2, .sig_all = true};
    struct ibv_async_event event;
    struct end a, b;
    int polled = 0;
    connect_pair(&a, &b, &small);
    int depth = a.send_cq->cqe;
    for (int i = 0; i <= depth && i < DEPTH; i++)
        must(post(&a,
                  (struct work){
                      .opcode = IBV_WR_RDMA_WRITE, .bytes = 8, .remote = (uintptr_t)b.buffer, .rkey = b.mr->rkey}) == 0,
             "write");
    must(readable(devices[0].context->async_fd, 2000), "an asynchronous event");
    must(ibv_get_async_event(devices[0].context, &event) == 0, "ibv_get_async_event");
    say("queues", "overrun: %s, of the right CQ: %s", ibv_event_type_str(event.event_type),
        event.element.cq == a.send_cq ? "yes" : "no");
    ibv_ack_async_event(&event);
    while (readable(devices[0].context->async_fd, 50)) {
        must(ibv_get_async_event(devices[0].context, &event) == 0, "ibv_get_async_event");
        if (event.event_type == IBV_EVENT_QP_FATAL)
            say("queues", "overrun: the QP: %s", event.element.qp == a.qp ? "fatal" : "another's");
        ibv_ack_async_event(&event);
    }
    while (polled < depth && wait_for(a.send_cq).status == IBV_WC_SUCCESS) polled++;
    say("queues", "completions before the overrun: %s", polled == depth ? "all" : "some");
    destroy_pair(&a, &b);
}

void test_queues(void) {
    limits();
    notification();
    overrun();
}
