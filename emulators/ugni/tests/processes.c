// processes.c: operations between processes, and the death of one.
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 500 };

/* A message from one process to another. */
struct card {
    uint32_t address;
    gni_mem_handle_t handle;
    uint8_t *buffer;
};

static void swap(int to, int from, const struct end *mine, struct end *other) {
    struct card card = {mine->address, mine->handle, mine->buffer};
    must(write(to, &card, sizeof card) == sizeof card, "write");
    must(read(from, &card, sizeof card) == sizeof card, "read");
    other->address = card.address;
    other->handle = card.handle;
    other->buffer = card.buffer;
}

// Adds to a counter of the peer, and answers each of its messages with one.
static void play(struct end *a, struct end *peer, bool first) {
    gni_cq_entry_t entry;
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT_W_SYNCFLAG, a, peer, 100);
    d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
    d.sync_flag_addr = (uintptr_t)peer->buffer + 1024;
    gni_post_descriptor_t add = descriptor(GNI_POST_AMO, a, peer, 8);
    add.amo_cmd = GNI_FMA_ATOMIC_ADD;
    add.first_operand = 1;
    add.remote_addr += 2048;
    for (int i = 1; i <= ROUNDS; i++) {
        volatile uint64_t *flag = (uint64_t *)(a->buffer + 1024);
        if (!first) {
            while (*flag != (uint64_t)i) usleep(1);
            must(a->buffer[99] == (uint8_t)i, "the payload in front of its flag");
            must(wait_for(a->destination, &entry) == 0, "REMOTE event");
        }
        must(transfer(a, &add) == 0, "add");
        memset(a->buffer + 4096, i, 100);
        d.local_addr = (uintptr_t)a->buffer + 4096;
        d.sync_flag_value = i;
        must(transfer(a, &d) == 0, "message");
        if (first) {
            while (*flag != (uint64_t)i) usleep(1);
            must(a->buffer[99] == (uint8_t)i, "the payload in front of its flag");
            must(wait_for(a->destination, &entry) == 0, "REMOTE event");
        }
    }
}

void test_processes(void) {
    int up[2], down[2], status;
    struct options options = {.memory = GNI_MEM_STRICT_PI_ORDERING | GNI_MEM_PI_FLUSH};
    struct end a, peer;
    memset(&peer, 0, sizeof peer);
    must(pipe(up) == 0 && pipe(down) == 0, "pipe");
    pid_t child = fork();
    must(child != -1, "fork");
    // The child lives on another node.
    if (child == 0) setenv("EMU_UGNI_NODE", "1", 1);
    make_end(&a, child == 0 ? 2 : 1, &options);
    swap(child == 0 ? up[1] : down[1], child == 0 ? down[0] : up[0], &a, &peer);
    a.ep = connect_to(&a, peer.address, child == 0 ? 1 : 2);
    if (child == 0) {
        play(&a, &peer, false);
        pause();
    }
    play(&a, &peer, true);
    say("processes", "nodes: %s", a.address == peer.address ? "one" : "two");
    say("processes", "messages: %d, additions: %lu", ROUNDS, *(unsigned long *)(a.buffer + 2048));
    gni_post_descriptor_t d = descriptor(GNI_POST_RDMA_GET, &a, &peer, 8);
    d.remote_addr += 2048;
    must(transfer(&a, &d) == 0, "get");
    say("processes", "got: %lu", *(unsigned long *)a.buffer);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    d = descriptor(GNI_POST_FMA_PUT, &a, &peer, 8);
    must(post(&a, &d) == 0, "put");
    gni_cq_entry_t entry;
    gni_post_descriptor_t *done;
    char text[64] = "";
    gni_return_t code = wait_for(a.source, &entry);
    GNI_CqErrorStr(entry, text, sizeof text);
    say("processes", "put to a process that was killed: %s, %s, %s", name(code),
        name(GNI_GetCompleted(a.source, entry, &done)), text);
    destroy_end(&a);
}
