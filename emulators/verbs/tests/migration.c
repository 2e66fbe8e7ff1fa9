// migration.c: automatic path migration, from port 1 of both devices to port 2, and back.
#include "harness.h"

#include <errno.h>
#include <poll.h>

static const char *name(int result) { return result == 0 ? "ok" : result == EINVAL ? "EINVAL" : "another error"; }

static struct ibv_qp_attr query(struct end *end) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
    return attr;
}

static int set_state(struct end *end, enum ibv_mig_state state) {
    struct ibv_qp_attr attr = {.path_mig_state = state};
    return ibv_modify_qp(end->qp, &attr, IBV_QP_PATH_MIG_STATE);
}

// Loads the path between these ports of both ends, and rearms.
static int load(struct end *end, const struct end *peer, uint8_t port) {
    struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM, .alt_port_num = port, .alt_timeout = 14};
    struct ibv_port_attr there;
    must(ibv_query_port(peer->device->context, port == 2 ? 2 : 1, &there) == 0, "ibv_query_port");
    attr.alt_ah_attr.dlid = there.lid;
    attr.alt_ah_attr.port_num = port;
    return ibv_modify_qp(end->qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static void say_states(const char *when, struct end *a, struct end *b) {
    static const char *const states[] = {"migrated", "rearm", "armed"};
    struct ibv_qp_attr of_a = query(a), of_b = query(b);
    say("migration", "%s: %s on port %d, %s on port %d", when, states[of_a.path_mig_state], of_a.port_num,
        states[of_b.path_mig_state], of_b.port_num);
}

// A message; without anything that is written, so that it tells paths alone.
static void exchange(struct end *from, struct end *to, const char *what) {
    must(post_receive(to, 0, 64, 0) == 0, "receive");
    must(post(from, (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .flags = IBV_SEND_SIGNALED}) == 0, "send");
    struct ibv_wc wc = wait_for(from->send_cq);
    say("migration", "%s: %s", what, ibv_wc_status_str(wc.status));
}

// Prints events of both devices until none comes for that time, which passes at once with `steps`.
// Whether there was any.
static bool say_events(struct end *a, struct end *b, int milliseconds) {
    int timeout = step((unsigned)milliseconds) ? 0 : milliseconds;
    struct end *ends[] = {a, b};
    struct pollfd wait[] = {{a->device->context->async_fd, POLLIN, 0}, {b->device->context->async_fd, POLLIN, 0}};
    bool any = false;
    while (poll(wait, 2, timeout) > 0) {
        int i = wait[0].revents == 0;
        struct ibv_async_event event;
        must(ibv_get_async_event(ends[i]->device->context, &event) == 0, "ibv_get_async_event");
        if (event.event_type == IBV_EVENT_PATH_MIG || event.event_type == IBV_EVENT_PATH_MIG_ERR)
            must(event.element.qp == ends[i]->qp, "the event names the QP");
        say("migration", "event of end %d: %s", i + 1, ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
        any = true;
    }
    return any;
}

// Paths and states that are taken, and when QPs are armed.
void fault_alternate(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    say_states("new", &a, &b);
    say("migration", "REARM without a path: %s", name(set_state(&a, IBV_MIG_REARM)));
    say("migration", "path of port 0: %s", name(load(&a, &b, 0)));
    int loaded = load(&a, &b, 2);
    say("migration", "path of port 2: %s", name(loaded));
    if (loaded != 0) {
        destroy_pair(&a, &b);
        return;
    }
    say("migration", "ARMED by the program: %s", name(set_state(&a, IBV_MIG_ARMED)));
    say_states("path of one end", &a, &b);
    exchange(&a, &b, "message");
    say_states("afterwards", &a, &b);
    say("migration", "path of port 2: %s", name(load(&b, &a, 2)));
    say_states("paths of both ends", &a, &b);
    exchange(&a, &b, "message");
    say_states("afterwards", &a, &b);
    say("migration", "REARM: %s", name(set_state(&b, IBV_MIG_REARM)));
    say("migration", "MIGRATED by the program: %s", name(set_state(&a, IBV_MIG_MIGRATED)));
    say_states("afterwards", &a, &b);
    exchange(&a, &b, "message");
    say_events(&a, &b, 0);
    destroy_pair(&a, &b);
}

// A migration by the program, or by faults, and another one back.
void fault_migration(void) {
    struct end a, b;
    connect_pair(&a, &b, NULL);
    must(load(&a, &b, 2) == 0 && load(&b, &a, 2) == 0, "alternate paths");
    exchange(&a, &b, "message");
    if (!say_events(&a, &b, 700)) must(set_state(&a, IBV_MIG_MIGRATED) == 0, "MIGRATED");
    say_states("before a message", &a, &b);
    exchange(&a, &b, "message");
    say_events(&a, &b, 0);
    if (query(&a).qp_state == IBV_QPS_RTS) {
        say_states("afterwards", &a, &b);
        say("migration", "REARM without another path: %s", name(set_state(&a, IBV_MIG_REARM)));
        must(load(&a, &b, 1) == 0 && load(&b, &a, 1) == 0, "other paths");
        exchange(&b, &a, "message between both in REARM");
        say_events(&a, &b, 700);
        say_states("before a message", &a, &b);
        exchange(&b, &a, "message");
        say_events(&a, &b, 0);
        say_states("afterwards", &a, &b);
    }
    destroy_pair(&a, &b);
}
