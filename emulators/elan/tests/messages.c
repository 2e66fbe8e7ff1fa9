// messages.c: queues and ports.
#include "harness.h"

#include <string.h>

enum { MANY = 300, TAGS = 3, LONG = 100000, BUFFERS = 4 };

// A message: its sender, and its number among the messages of the sender.
struct card {
    uint32_t vp, number;
};

static void receive(gasnet_elan_queue_t *queue, void *message) {
    while (!shim->queue_has(queue)) pause_ms(0);
    shim->queue_receive(queue, message);
}

// All send to process 0, whose queue is short: none is lost, and those of a process keep order.
static void many_to_one(void) {
    gasnet_elan_queue_t *queue = make_queue(4);
    uint32_t next[64] = {0}, turns = 0, last = 0;
    uint8_t slot[64];
    for (uint32_t i = 0; i < MANY && me != 0; i++) {
        struct card card = {me, i};
        shim->queue_send(queue, 0, &card, sizeof card);
    }
    for (uint32_t i = 0; i < MANY * (size - 1) && me == 0; i++) {
        struct card *card = (struct card *)slot;
        memset(slot, 1, sizeof slot);
        receive(queue, slot);
        must(card->number == next[card->vp]++, "the order of a sender");
        must(slot[sizeof *card] != 1 && slot[63] != 1, "the whole slot is written");
        turns += card->vp != last;
        last = card->vp;
    }
    shim->sync(elan);
    must(!shim->queue_has(queue), "nothing is left");
    say("queues", "all messages in the order of each sender, more than are in the queue");
}

// Two queues, and a process sends to itself.
static void two_queues(void) {
    gasnet_elan_queue_t *first = make_queue(8), *second = shim->queue(elan, 1, info.queue_bytes);
    uint8_t message[2048];
    must(second != NULL, "queue");
    memset(message, (int)me, sizeof message);
    shim->queue_send(first, me, message, 64);
    shim->queue_send(second, (me + 1) % size, message, info.queue_bytes);
    for (uint32_t i = 0; i < 2; i++) receive(i == 0 ? second : first, message);
    must(message[63] == me, "the own message");
    say("queues", "most bytes of a message: %u", info.queue_bytes);
}

void queue_parts(void) {
    many_to_one();
    two_queues();
}

void test_queues(void) {
    run(4, queue_parts);
    run(1, two_queues);
}

// Sends one and waits.
static void send(gasnet_elan_port_t *port, uint32_t vp, uint32_t tag, const void *message, size_t bytes) {
    gasnet_elan_event_t *event = shim->port_send(port, vp, tag, message, bytes);
    while (!shim->port_sent(port, event)) pause_ms(0);
}

// All send to process 0, by two tags. Each buffer gets its message in order.
void port_parts(void) {
    gasnet_elan_port_t *port = shim->port(elan);
    struct card *cards = shim->alloc(elan, 64, LONG);
    uint32_t vp, next[64][TAGS];
    memset(next, 0, sizeof next);
    if (me != 0) {
        for (uint32_t i = 0; i < MANY / 10; i++)
            for (uint32_t tag = 0; tag < TAGS; tag++) {
                *cards = (struct card){me, i};
                send(port, 0, tag, cards, tag == 0 ? LONG : sizeof *cards);
            }
    } else {
        gasnet_elan_event_t *events[TAGS][BUFFERS];
        uint8_t *buffers[TAGS][BUFFERS];
        uint32_t left[TAGS], oldest[TAGS] = {0}, all = TAGS * (size - 1) * (MANY / 10);
        for (uint32_t tag = 0; tag < TAGS; tag++)
            for (uint32_t i = 0; i < BUFFERS; i++) {
                buffers[tag][i] = shim->alloc(elan, 64, LONG);
                must(buffers[tag][i] != NULL, "alloc");
                events[tag][i] = shim->port_offer(port, tag, buffers[tag][i], LONG);
                left[tag] = BUFFERS;
            }
        for (uint32_t tag = 0; all > 0; tag = (tag + 1) % TAGS) {
            size_t bytes;
            uint32_t k = oldest[tag];
            if (!shim->port_arrived(port, events[tag][k])) continue;
            struct card *card = shim->port_receive(port, events[tag][k], &vp, &bytes);
            must(card->vp == vp && card->number == next[vp][tag]++, "the order of a sender");
            must(bytes == (tag == 0 ? LONG : sizeof *card), "the length");
            if ((uint8_t *)card != buffers[tag][k]) shim->port_free(port, card);
            events[tag][k] = shim->port_offer(port, tag, buffers[tag][k], LONG);
            oldest[tag] = (k + 1) % BUFFERS;
            all--;
        }
        must(left[0] == BUFFERS, "buffers");
    }
    shim->sync(elan);
    say("ports", "all messages in the order of each sender");
}

// Messages that come before a buffer is offered.
static void unexpected(void) {
    gasnet_elan_port_t *port = shim->port(elan);
    uint8_t *buffer = shim->alloc(elan, 64, LONG);
    gasnet_elan_event_t *event;
    uint32_t vp;
    size_t bytes;
    if (me == 1) {
        memset(buffer, 7, LONG);
        send(port, 0, 5, buffer, 100);
        event = shim->port_send(port, 0, 6, buffer, LONG);
        pause_ms(20);
        must(!shim->port_sent(port, event), "a long message waits");
        shim->sync(elan);
        while (!shim->port_sent(port, event)) pause_ms(0);
    } else {
        shim->sync(elan);
        event = shim->port_offer(port, 5, buffer, LONG);
        while (!shim->port_arrived(port, event)) pause_ms(0);
        must(shim->port_arrived(port, event), "the event stays");
        uint8_t *got = shim->port_receive(port, event, &vp, &bytes);
        say("ports", "short, unexpected: %zu bytes from %u, in the offered buffer: %s", bytes, vp, yes(got == buffer));
        must(got[99] == 7, "the message");
        shim->port_free(port, got);
        event = shim->port_offer(port, 6, buffer, LONG);
        while (!shim->port_arrived(port, event)) pause_ms(0);
        got = shim->port_receive(port, event, &vp, &bytes);
        say("ports", "long, unexpected: %zu bytes from %u, in the offered buffer: %s", bytes, vp, yes(got == buffer));
        must(got[LONG - 1] == 7, "the message");
        event = shim->port_offer(port, 7, buffer, LONG);
        pause_ms(5);
        say("ports", "another tag: %s", shim->port_arrived(port, event) ? "arrived" : "nothing");
    }
    shim->sync(elan);
}

void test_ports(void) {
    run(4, port_parts);
    run(2, unexpected);
}
