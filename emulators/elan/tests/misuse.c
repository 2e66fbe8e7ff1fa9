// misuse.c: mistakes of programs end the process with a message.
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gasnet_elan_port_t *port;
static gasnet_elan_channel_t *channel;
static gasnet_elan_queue_t *queue;
static uint8_t *own, *shared;
static uint64_t address, word;

static void again(void) {
    gasnet_elan_event_t *event = shim->put(channel, &word, address, 8, 0);
    while (!shim->poll(elan, event)) pause_ms(0);
    shim->wait(elan, event);
}
static void other_kind(void) { shim->poll(elan, shim->port_offer(port, 1, own, 64)); }
static void sent_again(void) {
    gasnet_elan_event_t *event = shim->port_send(port, 0, 1, own, 64);
    while (!shim->port_sent(port, event)) pause_ms(0);
    shim->port_sent(port, event);
}
static void received_again(void) {
    uint32_t vp;
    size_t bytes;
    shim->port_send(port, 0, 1, own, 64);
    gasnet_elan_event_t *event = shim->port_offer(port, 1, own, 64);
    while (!shim->port_arrived(port, event)) pause_ms(0);
    shim->port_receive(port, event, &vp, &bytes);
    shim->port_arrived(port, event);
}
static void no_bytes(void) { shim->put(channel, own, address, 0, 0); }
static void nobody(void) { shim->get(elan, address, own, 8, 7); }
static void stack_source(void) {
    uint8_t stack[1000];
    memset(stack, 0, sizeof stack);
    shim->wait(elan, shim->put(channel, stack, address, sizeof stack, 0));
}
static void stack_destination(void) {
    uint8_t stack[8];
    shim->wait(elan, shim->get(elan, address, stack, sizeof stack, 0));
}
static void freed_target(void) {
    shim->symmetric_free(elan, shared);
    shim->wait(elan, shim->put(channel, &word, address, 8, 0));
}
static void long_message(void) { shim->queue_send(queue, 0, own, 65); }
static void long_queue(void) { shim->queue(elan, 1, info.queue_bytes + 1); }
static void no_message(void) { shim->queue_receive(queue, own); }
static void send_shared(void) { shim->port_send(port, 0, 1, shared, 64); }
static void offer_stack(void) { shim->port_offer(port, 1, &port, 8); }
static void long_for_buffer(void) {
    shim->port_offer(port, 1, own, 64);
    shim->port_send(port, 0, 1, own, 65);
    pause_ms(20);
}
static void not_arrived(void) {
    uint32_t vp;
    size_t bytes;
    shim->port_receive(port, shim->port_offer(port, 1, own, 64), &vp, &bytes);
}
static void free_own(void) { shim->port_free(port, own); }
static void free_twice(void) {
    shim->free(elan, own);
    shim->free(elan, own);
}
static void part_of_page(void) { shim->map(elan, (void *)0x10000, 100); }
static void not_mapped(void) { shim->unmap(elan, (void *)0x10000, 4096); }
static void stopped(void) {
    shim->stop(elan);
    shim->sync(elan);
}
static void channel_of_stopped(void) {
    shim->stop(elan);
    shim->put(channel, own, address, 8, 0);
}
static void not_symmetric(void) { shim->broadcast(elan, own, 8, 0); }

static const struct {
    const char *what;
    void (*act)(void);
} mistakes[] = {
    {"an event that is gone", again},
    {"an event of another kind", other_kind},
    {"a message was sent", sent_again},
    {"a message was received", received_again},
    {"a put of nothing", no_bytes},
    {"a get from nobody", nobody},
    {"a large put from the stack", stack_source},
    {"a get to the stack", stack_destination},
    {"a put to symmetric memory that is free", freed_target},
    {"a message that is too long", long_message},
    {"a queue of messages that are too long", long_queue},
    {"no message is there", no_message},
    {"a message from other memory", send_shared},
    {"an offer of other memory", offer_stack},
    {"a message that is longer than the buffer", long_for_buffer},
    {"a message that has not arrived", not_arrived},
    {"free the own buffer", free_own},
    {"free twice", free_twice},
    {"map a part of a page", part_of_page},
    {"unmap what is not mapped", not_mapped},
    {"a call after stop", stopped},
    {"a put after stop", channel_of_stopped},
    {"a broadcast of other memory", not_symmetric},
};
static size_t mistake;

static void prepare(void) {
    port = shim->port(elan);
    channel = shim->channel(elan);
    queue = make_queue(4);
    own = shim->alloc(elan, 64, 4096);
    shared = symmetric(4096, &address);
}

static void one(void) {
    prepare();
    say("misuse", "%s", mistakes[mistake].what);
    mistakes[mistake].act();
    _exit(0);
}

// The part of two processes, of which the first waits in vain.
static void not_there(void) {
    prepare();
    if (me == 1) shim->wait(elan, shim->put(channel, own, 0x20, 8, 0));
    alarm(1);
    pause_ms(2000);
}
static void other_order(void) {
    if (me == 0) {
        alarm(1);
        shim->sync(elan);
    }
    pause_ms(100);
    shim->symmetric(elan, 64, 100, &address);
}
static void other_size(void) {
    if (me == 0) alarm(1);
    if (me == 1) pause_ms(100);
    shim->symmetric(elan, 64, 100 + me, &address);
}

void fault_misuse(void) {
    for (mistake = 0; mistake < sizeof mistakes / sizeof *mistakes; mistake++) run_fatal("misuse", 1, one);
    say("misuse", "a put to where nothing is mapped");
    run_fatal("misuse", 2, not_there);
    say("misuse", "not the same collective calls");
    run_fatal("misuse", 2, other_order);
    run_fatal("misuse", 2, other_size);
}
