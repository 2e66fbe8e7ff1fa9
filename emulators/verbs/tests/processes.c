// processes.c: several processes: atomics on one word, and a peer that is killed.
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 2, ADDITIONS = 4000 };

struct greeting {
    struct address address;
    uint64_t memory;
    uint32_t rkey;
};

static void send_all(int socket, const void *data, size_t bytes) {
    must(write(socket, data, bytes) == (ssize_t)bytes, "socket");
}

static void receive_all(int socket, void *data, size_t bytes) {
    must(recv(socket, data, bytes, MSG_WAITALL) == (ssize_t)bytes, "socket");
}

static struct greeting exchange(struct end *end, int socket) {
    struct greeting own = {address_of(end), (uintptr_t)end->buffer, end->mr->rkey}, peer;
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    char ready = 1;
    send_all(socket, &own, sizeof own);
    receive_all(socket, &peer, sizeof peer);
    must(to_init(end, access) == 0 && to_rtr(end, &peer.address) == 0 && to_rts(end) == 0, "connect");
    send_all(socket, &ready, 1);
    receive_all(socket, &ready, 1);
    return peer;
}

static void child(int socket) {
    struct end end;
    char go;
    open_devices();
    make_end(&end, &devices[1], &(struct options){0});
    struct greeting peer = exchange(&end, socket);
    receive_all(socket, &go, 1);
    for (int i = 0; i < ADDITIONS; i++) {
        must(post(&end, (struct work){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                      .bytes = 8,
                                      .offset = 8,
                                      .remote = peer.memory,
                                      .rkey = peer.rkey,
                                      .compare_add = 1,
                                      .flags = IBV_SEND_SIGNALED}) == 0,
             "fetch and add");
        must(wait_for(end.send_cq).status == IBV_WC_SUCCESS, "fetch and add");
    }
    send_all(socket, "d", 1);
    receive_all(socket, &go, 1);
    pause();
}

void test_processes(void) {
    int pair[CHILDREN][2];
    pid_t pids[CHILDREN];
    struct end ends[CHILDREN];
    struct greeting peer[CHILDREN];
    char done;
    for (int i = 0; i < CHILDREN; i++) {
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0, "socketpair");
        fflush(stdout);
        pids[i] = fork();
        must(pids[i] != -1, "fork");
        if (pids[i] == 0) {
            child(pair[i][1]);
            _exit(0);
        }
    }
    open_devices();
    if (devices[0].attr.atomic_cap == IBV_ATOMIC_NONE) exit(0);
    for (int i = 0; i < CHILDREN; i++) make_end(&ends[i], &devices[0], &(struct options){0});
    // All add to the first end's word.
    for (int i = 0; i < CHILDREN; i++) {
        struct ibv_mr *mr = ends[i].mr;
        uint8_t *buffer = ends[i].buffer;
        ends[i].mr = ends[0].mr;
        ends[i].buffer = ends[0].buffer;
        peer[i] = exchange(&ends[i], pair[i][0]);
        ends[i].mr = mr;
        ends[i].buffer = buffer;
    }
    // Both at once.
    for (int i = 0; i < CHILDREN; i++) send_all(pair[i][0], "g", 1);
    for (int i = 0; i < CHILDREN; i++) receive_all(pair[i][0], &done, 1);
    say("processes", "sum of additions: %d", (int)*(uint64_t *)ends[0].buffer);
    strcpy((char *)ends[1].buffer, "hello");
    must(post(&ends[1], (struct work){.opcode = IBV_WR_RDMA_WRITE,
                                      .bytes = 6,
                                      .remote = peer[1].memory + 64,
                                      .rkey = peer[1].rkey,
                                      .flags = IBV_SEND_SIGNALED}) == 0,
         "write");
    say_completion("processes", "write to another process", ends[1].send_cq);
    must(post(&ends[1], (struct work){.opcode = IBV_WR_RDMA_READ,
                                      .bytes = 6,
                                      .offset = 128,
                                      .remote = peer[1].memory + 64,
                                      .rkey = peer[1].rkey,
                                      .flags = IBV_SEND_SIGNALED}) == 0,
         "read");
    say_completion("processes", "read from another process", ends[1].send_cq);
    say("processes", "read: %s", ends[1].buffer + 128);
    // Killed, but not reaped: a zombie answers no more than a dead host.
    for (int i = 0; i < CHILDREN; i++) {
        siginfo_t info;
        kill(pids[i], SIGKILL);
        must(waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT) == 0, "waitid");
    }
    must(post(&ends[0], (struct work){.opcode = IBV_WR_SEND, .bytes = 8, .id = 1}) == 0, "send");
    say_completion("processes", "send to a process that was killed", ends[0].send_cq);
    must(post(&ends[1],
              (struct work){
                  .opcode = IBV_WR_RDMA_WRITE, .bytes = 6, .remote = peer[1].memory, .rkey = peer[1].rkey, .id = 2}) ==
             0,
         "write");
    say_completion("processes", "write to a process that was killed", ends[1].send_cq);
    for (int i = 0; i < CHILDREN; i++) {
        waitpid(pids[i], NULL, 0);
        destroy_end(&ends[i]);
        close(pair[i][0]);
        close(pair[i][1]);
    }
    for (int i = 0; i < 2; i++) {
        must(ibv_dealloc_pd(devices[i].pd) == 0, "ibv_dealloc_pd");
        must(ibv_close_device(devices[i].context) == 0, "ibv_close_device");
    }
}
