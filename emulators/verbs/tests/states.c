// states.c: the state machine of QPs.
#include "harness.h"

#include <errno.h>
#include <string.h>

static const char *name(int result) { return result == 0 ? "ok" : result == EINVAL ? "EINVAL" : "another error"; }

static int go(struct end *end, enum ibv_qp_state state) {
    struct ibv_qp_attr attr = {.qp_state = state};
    return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

static int state(struct end *end) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
    return attr.qp_state;
}

void test_states(void) {
    static const struct options usual;
    struct work send = {.opcode = IBV_WR_SEND, .bytes = 8, .flags = IBV_SEND_SIGNALED};
    struct end end;
    make_end(&end, &devices[0], &usual);
    struct address address = address_of(&end);
    say("states", "new: %d", state(&end));
    say("states", "receive in RESET: %s", name(post_receive(&end, 0, 8, 0)));
    say("states", "send in RESET: %s", name(post(&end, send)));
    say("states", "RESET to RTR: %s", name(to_rtr(&end, &address)));
    say("states", "RESET to INIT without attributes: %s", name(go(&end, IBV_QPS_INIT)));
    say("states", "RESET to INIT: %s", name(to_init(&end, 0)));
    say("states", "receive in INIT: %s", name(post_receive(&end, 0, 8, 0)));
    say("states", "send in INIT: %s", name(post(&end, send)));
    say("states", "INIT to RTS: %s", name(to_rts(&end)));
    say("states", "INIT to RTR without attributes: %s", name(go(&end, IBV_QPS_RTR)));
    say("states", "INIT to RTR: %s", name(to_rtr(&end, &address)));
    say("states", "send in RTR: %s", name(post(&end, send)));
    say("states", "RTR to RTS: %s", name(to_rts(&end)));
    say("states", "now: %d", state(&end));
    say("states", "to ERR: %s", name(go(&end, IBV_QPS_ERR)));
    say_completion("states", "receive that was posted", end.recv_cq);
    say("states", "send in ERR: %s", name(post(&end, send)));
    say_completion("states", "send in ERR", end.send_cq);
    say("states", "receive in ERR: %s", name(post_receive(&end, 8, 8, 0)));
    say_completion("states", "receive in ERR", end.recv_cq);
    say("states", "ERR to RTS: %s", name(to_rts(&end)));
    say("states", "ERR to RESET: %s", name(go(&end, IBV_QPS_RESET)));
    say("states", "RESET to INIT again: %s", name(to_init(&end, 0)));
    for (int i = 0; i < DEPTH; i++) must(post_receive(&end, 0, 8, 0) == 0, "receive");
    must(go(&end, IBV_QPS_ERR) == 0 && go(&end, IBV_QPS_RESET) == 0 && to_init(&end, 0) == 0, "reset");
    say("states", "completions after a reset: %s", nothing(end.recv_cq) ? "none" : "some");
    for (int i = 0; i < DEPTH; i++) must(post_receive(&end, 0, 8, 0) == 0, "receive");
    must(go(&end, IBV_QPS_RESET) == 0 && to_init(&end, 0) == 0, "reset");
    say("states", "room after another: %s", name(post_receive(&end, 0, 8, 0)));
    destroy_end(&end);
}
