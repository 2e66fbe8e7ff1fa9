// srq.c: two connections that share receives.
#include "harness.h"

#include <errno.h>
#include <poll.h>

static bool event_of(struct ibv_context *context, struct ibv_async_event *event) {
    struct pollfd wait = {context->async_fd, POLLIN, 0};
    if (poll(&wait, 1, 1000) != 1 || ibv_get_async_event(context, event) != 0) return false;
    ibv_ack_async_event(event);
    return true;
}

void test_srq(void) {
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_srq *srq = ibv_create_srq(devices[1].pd, &init);
    struct options options = {0};
    struct ibv_async_event event;
    struct end a[2], b[2];
    int result = 0;
    must(srq != NULL, "ibv_create_srq");
    for (int i = 0; i < 2; i++) {
        int access = IBV_ACCESS_REMOTE_WRITE;
        make_end(&a[i], &devices[0], &options);
        options.srq = srq;
        make_end(&b[i], &devices[1], &options);
        options.srq = NULL;
        struct address address = address_of(&b[i]);
        must(to_init(&a[i], access) == 0 && to_rtr(&a[i], &address) == 0 && to_rts(&a[i]) == 0, "connect");
        address = address_of(&a[i]);
        must(to_init(&b[i], access) == 0 && to_rtr(&b[i], &address) == 0 && to_rts(&b[i]) == 0, "connect");
    }
    must(post(&a[0], (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "send");
    say_completion("srq", "send without a receive", a[0].send_cq);
    for (int i = 0; i < 4; i++) must(post_receive(&b[0], 64 * (uint32_t)i, 64, 0) == 0, "receive");
    must(post(&a[1], (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .id = 1, .flags = IBV_SEND_SIGNALED}) == 0,
         "send");
    say_completion("srq", "send", a[1].send_cq);
    say_completion("srq", "receive, at the CQ of the QP", b[1].recv_cq);
    must(post(&a[1], (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .id = 2, .flags = IBV_SEND_SIGNALED}) == 0,
         "send");
    say_completion("srq", "send", a[1].send_cq);
    say_completion("srq", "receive", b[1].recv_cq);
    must(ibv_modify_qp(b[1].qp, &error, IBV_QP_STATE) == 0, "ERR");
    say("srq", "QP in ERR: %s",
        event_of(devices[1].context, &event) ? ibv_event_type_str(event.event_type) : "no event");
    say("srq", "receives flushed: %s", nothing(b[1].recv_cq) ? "none" : "some");
    say("srq", "destroying an SRQ in use: %s", ibv_destroy_srq(srq) == EBUSY ? "EBUSY" : "another error");
    for (int posted = 0; posted < 100000 && result == 0; posted++) result = post_receive(&b[0], 0, 8, 0);
    say("srq", "full: %s", result == ENOMEM ? "ENOMEM" : "another error");
    for (int i = 0; i < 2; i++) destroy_pair(&a[i], &b[i]);
    must(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
}
