// state.c: start, memory, collective calls, and the ends of processes.
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void information(void) {
    say("start", "Elan%u, %u processes, %u rails, queues of %u bytes, %u slots of ports, small puts of %u bytes",
        info.elan, info.size, info.rails, info.queue_bytes, info.port_slots, info.small_put);
    say("start", "throttle %u, serial %u, hardware broadcast %u, version \"%s\"", info.throttle, info.is_serial,
        info.has_hardware_broadcast, info.version);
    say("start", "to map: %lld", (long long)info.map_bytes);
    must(info.vp < info.size, "a number of this process");
}

// As the resource manager says.
static void by_rms(void) {
    gasnet_elan_place_t nowhere = {1, 5, 7};
    gasnet_elan_info_t found;
    char why[100] = "";
    int i;
    setenv("RMS_RESOURCEID", "node.77", 1);
    say("start", "RMS without rank: %s", shim->start(&nowhere, &found, why, sizeof why) == NULL ? why : "good");
    setenv("RMS_RANK", "0", 1);
    setenv("RMS_NPROCS", "1", 1);
    gasnet_elan_t *second = shim->start(&nowhere, &found, why, sizeof why);
    must(second != NULL, "start");
    say("start", "RMS: %u of %u", found.vp, found.size);
    say("start", "two attachments: %s", yes(second != elan));
    shim->stop(second);
    nowhere.size = 0;
    setenv("RMS_RESOURCEID", "3", 1);
    for (i = 0; i < 2500; i++) {
        second = shim->start(&nowhere, &found, why, sizeof why);
        must(second != NULL && shim->queue(second, 10, 100) != NULL && shim->port(second) != NULL, "start again");
        shim->stop(second);
    }
    say("start", "one after the other: %d", i);
    unsetenv("RMS_RESOURCEID");
    say("start", "no size: %s", shim->start(&nowhere, &found, why, sizeof why) == NULL ? why : "good");
}

void test_start(void) {
    run(3, information);
    run(1, by_rms);
}

static void memory_parts(void) {
    uint64_t first, second, none = 0;
    uint8_t *a = shim->symmetric(elan, 64, 1000, &first), *b = shim->symmetric(elan, 4096, 5000, &second);
    uint8_t stack[16], *all[2000];
    int count = 0;
    must(a != NULL && b != NULL && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 4096 == 0, "symmetric memory");
    must(first != second, "two addresses");
    shim->symmetric_free(elan, a);
    shim->symmetric_free(elan, b);
    a = shim->symmetric(elan, 64, 1000, &none);
    say("memory", "symmetric memory is used again: %s", yes(none == first));
    say("memory", "more than there is: %s", shim->symmetric(elan, 64, 1 << 30, &none) == NULL ? "none" : "some");
    uint8_t *own = shim->alloc(elan, 4096, 100);
    must(own != NULL && (uintptr_t)own % 4096 == 0, "alloc");
    uint8_t *mapped = pages(16 << 12);
    say("memory", "addressable: alloc %d, symmetric %d, mapped %d, stack %d", shim->is_addressable(elan, own, 100),
        shim->is_addressable(elan, a, 1000), shim->is_addressable(elan, mapped, 4096),
        shim->is_addressable(elan, stack, 16));
    uint64_t address = shim->map(elan, mapped, 8 << 12);
    must(address != 0, "map");
    say("memory", "addressable: mapped %d, more than that %d", shim->is_addressable(elan, mapped + 1, (8 << 12) - 1),
        shim->is_addressable(elan, mapped + 1, 8 << 12));
    shim->unmap(elan, mapped, 8 << 12);
    say("memory", "addressable: unmapped %d", shim->is_addressable(elan, mapped, 1));
    say("memory", "the room is used again: %s", yes(shim->map(elan, mapped, 4 << 12) == address));
    while (count < 2000 && (all[count] = shim->alloc(elan, 64, 1 << 20)) != NULL) count++;
    say("memory", "MiB to allocate: %d", count);
    while (count > 0) shim->free(elan, all[--count]);
    say("memory", "after they are free: %s", yes(shim->alloc(elan, 64, 1 << 22) != NULL));
}

void test_memory(void) { run(2, memory_parts); }

void collective_parts(void) {
    uint64_t address;
    uint32_t *memory = (uint32_t *)symmetric(5000, &address), i, root;
    volatile uint32_t *count = (uint32_t *)symmetric(256, &address);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    for (i = 0; i < 100; i++) {
        root = i % size;
        if (me == root) memset(memory, (int)i, 5000);
        if (i % 3 == 0) shim->barrier(elan);
        shim->broadcast(elan, memory, 5000, root);
        must(*memory == i * 0x1010101 && memory[1249] == i * 0x1010101, "what was broadcast");
        i % 2 ? shim->sync(elan) : shim->barrier(elan);
    }
    say("collectives", "broadcasts: good");
    for (i = 1; i <= 20; i++) {
        for (root = 0; root < size; root++) shim->wait(elan, shim->put(channel, &i, address + 4 * me, 4, root));
        shim->barrier(elan);
        for (root = 0; root < size; root++) must(count[root] == i, "a barrier waits for all");
        shim->sync(elan);
    }
    say("collectives", "barriers: good");
}

void test_collectives(void) { run(5, collective_parts); }

static gasnet_elan_t *common;
static gasnet_elan_queue_t *common_queue;
static gasnet_elan_channel_t *common_channel;
static uint64_t common_address;

static void *one_of_four(void *number) {
    uint64_t value, at = (uintptr_t)number, *got = shim->alloc(common, 64, 8);
    for (uint64_t i = 1; i <= 500; i++) {
        value = i << 8 | at;
        shim->wait(common, shim->put(common_channel, &value, common_address + 8 * at, 8, 0));
        shim->wait(common, shim->get(common, common_address + 8 * at, got, 8, 0));
        must(*got == value, "the own word");
        shim->queue_send(common_queue, 0, &value, 8);
    }
    return NULL;
}

// Threads share an attachment.
static void share(void) {
    uint64_t slot[8], next[4] = {1, 1, 1, 1};
    pthread_t threads[4];
    common_queue = make_queue(3);
    common_channel = shim->channel(elan);
    symmetric(64, &common_address);
    common = elan;
    for (uintptr_t i = 0; i < 4 && me == 0; i++)
        must(pthread_create(&threads[i], NULL, one_of_four, (void *)i) == 0, "a thread");
    for (uintptr_t i = 0; i < 4 * 500 && me == 0; i++) {
        while (!shim->queue_has(common_queue)) pause_ms(0);
        shim->queue_receive(common_queue, slot);
        must(slot[0] >> 8 == next[slot[0] & 3]++, "the order of a thread");
    }
    for (uintptr_t i = 0; i < 4 && me == 0; i++) pthread_join(threads[i], NULL);
    shim->barrier(elan);
    say("threads", "of one attachment: good");
}

// The same by threads of one process.
void test_together(void) {
    run_threads(4, transfer_parts);
    run_threads(4, queue_parts);
    run_threads(4, port_parts);
    run_threads(5, collective_parts);
    run(2, share);
}

// Messages to processes that have stopped, or were killed.
static void silence(void) {
    uint64_t address;
    gasnet_elan_queue_t *queue = make_queue(2);
    gasnet_elan_port_t *port = shim->port(elan);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    uint8_t *memory = symmetric(4096, &address), *own = shim->alloc(elan, 64, 4096);
    (void)memory;
    if (me == 1) return;
    if (me == 2) raise(SIGKILL);
    pause_ms(50);
    for (uint32_t vp = 1; vp <= 2; vp++) {
        gasnet_elan_event_t *put = shim->put(channel, own, address, 8, vp);
        gasnet_elan_event_t *got = shim->get(elan, address, own, 2000, vp);
        gasnet_elan_event_t *sent = shim->port_send(port, vp, 1, own, 100);
        for (uint32_t i = 0; i < 5; i++) shim->queue_send(queue, vp, own, 10);
        pause_ms(5);
        say("ends", "with a process that %s: put %d, get %d, message %d", vp == 1 ? "has stopped" : "was killed",
            shim->poll(elan, put), shim->poll(elan, got), shim->port_sent(port, sent));
    }
}

static void last_words(void) {
    char why[100] = "";
    must(shim->signal_job(SIGUSR1, why, sizeof why) == 0, "signal_job");
}

static void signalled(void) {
    shim->sync(elan);
    if (me == 1) last_words();
    pause_ms(5000);
}

void test_ends(void) {
    run_fatal("ends", 3, silence);
    run_fatal("ends", 3, signalled);
}
