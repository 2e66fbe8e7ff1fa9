// faults.c: what the emulator's faults look like.
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void complete(gasnet_elan_event_t *event) {
    while (!shim->poll(elan, event)) pause_ms(0);
}

// The source is overwritten at once: which bytes arrive?
static void overwrite(const char *what, size_t bytes) {
    uint64_t address;
    uint8_t *memory = symmetric(bytes, &address), *own = shim->alloc(elan, 64, bytes);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    int wrong = 0, early = 0;
    for (int i = 0; i < 50; i++) {
        memset(own, 1, bytes);
        memset(memory, 0, bytes);
        gasnet_elan_event_t *event = shim->put(channel, own, address, bytes, 0);
        memset(own, 2, bytes);
        complete(event);
        early += memory[bytes - 1] == 0;
        wrong += memory[bytes - 1] == 2;
    }
    say("late", "%s: the target has %s, the event comes before the data: %d", what,
        wrong ? "what was written afterwards" : "what was put", early);
}

static void late(void) {
    gasnet_elan_port_t *port = shim->port(elan);
    uint8_t *own = shim->alloc(elan, 64, 64), *buffer = shim->alloc(elan, 64, 64);
    uint32_t vp, wrong = 0;
    size_t bytes;
    overwrite("a small put", info.small_put);
    overwrite("a large put", 10000);
    for (uint32_t i = 0; i < 20; i++) {
        gasnet_elan_event_t *offered = shim->port_offer(port, 1, buffer, 64);
        memset(own, 1, 64);
        gasnet_elan_event_t *sent = shim->port_send(port, 0, 1, own, 64);
        memset(own, 2, 64);
        while (!shim->port_sent(port, sent)) pause_ms(0);
        must(shim->port_arrived(port, offered), "what was sent has arrived");
        uint8_t *got = shim->port_receive(port, offered, &vp, &bytes);
        wrong += got[0] == 2;
    }
    say("late", "a message of a port: the target has %s", wrong ? "what was written afterwards" : "what was sent");
}

void fault_late(void) { run(1, late); }

enum { MANY = 40 };

// Events of puts and gets change places, and messages of different senders.
static void reorder(void) {
    uint64_t address;
    uint8_t *memory = symmetric(4096, &address), *own = shim->alloc(elan, 64, 4096);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    gasnet_elan_queue_t *queue = make_queue(2 * MANY);
    gasnet_elan_port_t *port = shim->port(elan);
    gasnet_elan_event_t *events[MANY];
    uint32_t swapped = 0, turns[2] = {0, 0}, number[3], vp, wrong = 0;
    size_t bytes;
    // All are complete, and found in order, if this process does not run for a while.
    for (uint32_t tries = 0; tries < 100 && me == 0 && swapped == 0; tries++) {
        uint32_t largest = 0, left = MANY;
        for (uint32_t i = 0; i < MANY; i++)
            events[i] = i % 2 ? shim->put(channel, own, address + 64 * i, 8, 1) : shim->get(elan, address, own, 8, 1);
        while (left > 0)
            for (uint32_t i = 0; i < MANY; i++) {
                if (events[i] == NULL || !shim->poll(elan, events[i])) continue;
                events[i] = NULL;
                left--;
                swapped += i < largest;
                largest = i > largest ? i : largest;
            }
    }
    for (vp = 1; vp < 3; vp++) {
        for (uint32_t i = 0; i < MANY && me == vp; i++) {
            uint32_t card[2] = {me, i}, *message = shim->alloc(elan, 64, 8);
            shim->queue_send(queue, 0, card, sizeof card);
            memcpy(message, card, 8);
            shim->port_send(port, 0, 1, message, 8);
        }
        shim->sync(elan);
    }
    // Longer than messages take.
    pause_ms(20);
    uint32_t last = 1;
    memset(number, 0, sizeof number);
    for (uint32_t i = 0; i < 2 * MANY && me == 0; i++) {
        uint32_t card[16];
        while (!shim->queue_has(queue)) pause_ms(0);
        shim->queue_receive(queue, card);
        turns[0] += card[0] != last;
        last = card[0];
        wrong += card[1] != number[last]++;
    }
    last = 1;
    memset(number, 0, sizeof number);
    for (uint32_t i = 0; i < 2 * MANY && me == 0; i++) {
        gasnet_elan_event_t *event = shim->port_offer(port, 1, own, 64);
        while (!shim->port_arrived(port, event)) pause_ms(0);
        uint32_t *card = shim->port_receive(port, event, &vp, &bytes);
        turns[1] += vp != last;
        last = vp;
        wrong += card[1] != number[last]++;
        if (card != (uint32_t *)own) shim->port_free(port, card);
    }
    (void)memory;
    say("reorder", "events change places: %s, messages of queues: %s, of ports: %s, of one sender: %s",
        yes(swapped > 0), yes(turns[0] > 1), yes(turns[1] > 1), yes(wrong > 0));
    shim->sync(elan);
}

void fault_reorder(void) { run(3, reorder); }

static void limits(void) {
    uint64_t address;
    uint8_t *memory = pages(1 << 20);
    int i, room = 0;
    say("limits", "rails %u, slots %u, small %u, throttle %u, to map %lld", info.rails, info.port_slots, info.small_put,
        info.throttle, (long long)info.map_bytes);
    for (i = 1; i <= 3; i++)
        say("limits", "%d: alloc %s, symmetric %s, map %s, queue %s", i, yes(shim->alloc(elan, 64, 8) != NULL),
            yes(shim->symmetric(elan, 64, 8, &address) != NULL), yes(shim->map(elan, memory, 4096) != 0),
            yes(shim->queue(elan, 1, 8) != NULL));
    while (shim->alloc(elan, 64, 1024) != NULL) room++;
    for (i = 0; i < 4000 && shim->map(elan, memory, 4096) != 0;) i++;
    say("limits", "KiB to allocate: %d, pages to map: %d", room, i);
}

void fault_limits(void) { run(2, limits); }

static void full_channel(void) {
    uint64_t address;
    uint8_t *memory = symmetric(4096, &address);
    gasnet_elan_channel_t *channel = shim->channel(elan), *other = shim->channel(elan);
    gasnet_elan_event_t *event = NULL;
    uint32_t i;
    for (i = 0; i < 2 * info.throttle; i++)
        event = shim->put(i < info.throttle ? channel : other, &address, address, 8, 0);
    complete(event);
    shim->put(other, memory, address, 8, 0);
    say("waits", "puts: %u in two channels", i);
    shim->put(channel, memory, address, 8, 0);
    say("waits", "put: one more");
}

// Whether a message comes. A sender that waited may be without a processor for long.
static int comes(gasnet_elan_queue_t *queue) {
    int ms;
    for (ms = 0; ms < 300 && !shim->queue_has(queue); ms++) pause_ms(1);
    return ms < 300;
}

static void full_queue(void) {
    gasnet_elan_queue_t *queue = make_queue(3);
    uint8_t message[64];
    int i;
    if (me == 1) {
        for (i = 0; i < 3; i++) shim->queue_send(queue, 0, &i, sizeof i);
        shim->sync(elan);
        shim->queue_send(queue, 0, &i, sizeof i);
        return;
    }
    shim->sync(elan);
    pause_ms(20);
    for (i = 0; i < 10 && comes(queue); i++) shim->queue_receive(queue, message);
    say("waits", "messages of 4: %d", i);
}

void fault_waits(void) {
    run_fatal("waits", 1, full_channel);
    run_fatal("waits", 2, full_queue);
}

static gasnet_elan_t *shared;

static void *in_barrier(void *unused) {
    shim->barrier(shared);
    return unused;
}

// A thread waits in a barrier while another one calls.
static void threads(void) {
    gasnet_elan_queue_t *queue = make_queue(3);
    pthread_t thread;
    if (me == 1) {
        pause_ms(100);
        shim->barrier(elan);
        return;
    }
    shared = elan;
    pthread_create(&thread, NULL, in_barrier, NULL);
    pause_ms(20);
    shim->queue_has(queue);
    pthread_join(thread, NULL);
    say("threads", "not noticed");
}

void fault_threads(void) { run_fatal("threads", 2, threads); }

static void starts(void) {
    gasnet_elan_place_t at = place(1, 3);
    char why[200] = "";
    gasnet_elan_info_t unused;
    say("no-start", "%s", shim->start(&at, &unused, why, sizeof why) == NULL ? why : "started");
    at.rank = 3;
    say("no-start", "%s", shim->start(&at, &unused, why, sizeof why) == NULL ? why : "started");
    at.rank = 0;
    at.size = 1;
    elan = shim->start(&at, &unused, why, sizeof why);
    say("no-start", "%s", elan == NULL ? why : "alone: started");
}

void fault_start(void) { run_alone("no-start", starts); }

static void leaks(void) {
    uint64_t address;
    gasnet_elan_place_t at = place(0, 1);
    char why[200];
    shim->symmetric(elan, 64, 100, &address);
    shim->put(shim->channel(elan), &address, address, 8, 0);
    shim->alloc(elan, 64, 100);
    shim->map(elan, pages(4096), 4096);
    shim->start(&at, &info, why, sizeof why);
}

static void spoilt(void) {
    gasnet_elan_queue_t *queue = make_queue(2);
    uint8_t sent[64] = {7}, received[64];
    int first[2];
    for (int i = 0; i < 2; i++) shim->queue_send(queue, 0, sent, 1);
    for (int i = 0; i < 2; i++) {
        while (!shim->queue_has(queue)) pause_ms(0);
        shim->queue_receive(queue, received);
        first[i] = received[0];
    }
    say("spoilt", "messages: %d, %d", first[0], first[1]);
}

void fault_spoilt(void) { run(1, spoilt); }

void fault_leaks(void) { run_fatal("leaks", 1, leaks); }
