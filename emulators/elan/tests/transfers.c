// transfers.c: puts and gets.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 200, BIG = 1 << 20, ROOM = BIG + 4096 };

// The event of a put or get, after which its data are there.
static void complete(gasnet_elan_event_t *event) {
    must(event != NULL, "an event");
    while (!shim->poll(elan, event)) pause_ms(0);
}

// Each process puts to all others, itself included, and gets what it put.
static void everywhere(void) {
    uint64_t address;
    uint8_t *memory = symmetric(4096 * 8, &address), *own = shim->alloc(elan, 64, 4096);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    uint32_t wrong = 0;
    must(own != NULL && channel != NULL, "memory and a channel");
    for (uint32_t bytes = 1; bytes <= 4096; bytes *= 2) {
        for (uint32_t vp = 0; vp < size; vp++) {
            memset(own, 1 + me, bytes);
            shim->wait(elan, shim->put(channel, own, address + me * 4096, bytes, vp));
            memset(own, 0, bytes);
            complete(shim->get(elan, address + me * 4096, own, bytes, vp));
            wrong += own[0] != 1 + me || own[bytes - 1] != 1 + me;
        }
    }
    shim->sync(elan);
    for (uint32_t vp = 0; vp < size; vp++) wrong += memory[vp * 4096 + 4095] != 1 + vp;
    must(wrong == 0, "the data of puts and gets");
    say("transfers", "from each to each: good");
    shim->sync(elan);
    shim->symmetric_free(elan, memory);
}

// Into memory that is mapped, large ones.
static void mapped(void) {
    uint64_t addresses, *all = (uint64_t *)symmetric(64 * 8, &addresses);
    uint8_t *memory = pages(ROOM);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    uint32_t to = (me + 1) % size, from = (me + size - 1) % size;
    uint64_t mine = shim->map(elan, memory, ROOM);
    must(mine != 0, "map");
    say("transfers", "the network address is the virtual one: %s", yes(mine == (uintptr_t)memory));
    for (size_t i = 0; i < size; i++) complete(shim->put(channel, &mine, addresses + 8 * me, 8, i));
    shim->sync(elan);
    for (size_t i = 0; i < BIG / 2; i++) memory[i] = (uint8_t)(i * 7 + me);
    complete(shim->put(channel, memory, all[to] + BIG / 2 + 1, BIG / 2, to));
    shim->sync(elan);
    for (size_t i = 0; i < BIG / 2; i++) must(memory[BIG / 2 + 1 + i] == (uint8_t)(i * 7 + from), "what was put");
    complete(shim->get(elan, all[to] + 3, memory + BIG / 2 + 8, BIG / 2, to));
    for (size_t i = 0; i < BIG / 2 - 3; i++)
        must(memory[BIG / 2 + 8 + i] == (uint8_t)((i + 3) * 7 + to), "what was got");
    say("transfers", "large ones: good");
    shim->sync(elan);
    shim->unmap(elan, memory, ROOM);
}

// Small puts read their sources at the call, from any memory.
static void small(void) {
    uint64_t address;
    uint8_t *memory = symmetric(MANY * 128, &address), stack[128];
    gasnet_elan_channel_t *channels[MANY / 50];
    gasnet_elan_event_t *events[MANY];
    for (uint32_t i = 0; i < MANY / 50; i++) channels[i] = shim->channel(elan);
    for (uint32_t i = 0; i < MANY; i++) {
        memset(stack, (int)i, info.small_put);
        events[i] = shim->put(channels[i / 50], stack, address + i * 128, info.small_put, (me + 1) % size);
    }
    for (uint32_t i = 0; i < MANY; i++) complete(events[i]);
    shim->sync(elan);
    for (uint32_t i = 0; i < MANY; i++) must(memory[i * 128 + info.small_put - 1] == (uint8_t)i, "what was put");
    say("transfers", "%d small ones at a time: good", MANY);
}

// Words of 8 bytes are never seen in part. Process 0 puts, the others look.
static void words(void) {
    uint64_t address, torn = 0;
    volatile uint64_t *word = (uint64_t *)symmetric(64, &address);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    for (uint64_t i = 1; i <= 3000 && me == 0; i++) {
        uint64_t value = i % 255 * 0x101010101010101;
        complete(shim->put(channel, &value, address, 8, 1));
    }
    for (uint64_t i = 0; i < 200000 && me == 1; i++) {
        uint64_t value = *word;
        torn += value != (value & 255) * 0x101010101010101;
    }
    must(torn == 0, "words appear at once");
    shim->sync(elan);
    say("transfers", "words appear at once");
}

void transfer_parts(void) {
    everywhere();
    mapped();
    small();
    words();
}

void test_transfers(void) { run(4, transfer_parts); }
