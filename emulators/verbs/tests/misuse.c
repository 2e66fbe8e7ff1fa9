// misuse.c: what a program must not do. Each is done by a child, which aborts with a message.
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs `act` in a child, and prints its message.
static void child(const char *name, void (*act)(void)) {
    char text[256] = "nothing";
    int pipes[2], status;
    must(pipe(pipes) == 0, "pipe");
    fflush(stdout);
    pid_t pid = fork();
    must(pid != -1, "fork");
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        act();
        _exit(0);
    }
    close(pipes[1]);
    FILE *messages = fdopen(pipes[0], "r");
    must(messages != NULL, "fdopen");
    if (fgets(text, sizeof text, messages)) text[strcspn(text, "\n")] = 0;
    fclose(messages);
    must(waitpid(pid, &status, 0) == pid, "waitpid");
    say("misuse", "%s: %s%s", name, text, WIFSIGNALED(status) ? ", aborted" : "");
}

static struct ibv_cq *parents_queue;

static void poll_queue_of_parent(void) {
    struct ibv_wc wc;
    ibv_poll_cq(parents_queue, 1, &wc);
}

static void close_device_of_parent(void) { ibv_close_device(devices[0].context); }

static void open_devices_of_its_own(void) {
    struct end a, b;
    open_devices();
    connect_pair(&a, &b, NULL);
    must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 1}) == 0, "post");
    fprintf(stderr, "works\n");
}

static void destroy_a_handle_of_a_queued_datagram(void) {
    struct options options = {.type = IBV_QPT_UD};
    struct ibv_ah_attr attr = {.port_num = 1};
    struct ibv_sge sge = {.length = 8};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    struct end a, b;
    open_devices();
    attr.dlid = devices[1].port.lid;
    attr.is_global = devices[1].global;
    attr.grh.dgid = devices[1].gid;
    attr.grh.sgid_index = (uint8_t)devices[0].gid_index;
    connect_pair(&a, &b, &options);
    wr.wr.ud.ah = ibv_create_ah(devices[0].pd, &attr);
    must(wr.wr.ud.ah != NULL, "ibv_create_ah");
    sge.addr = (uintptr_t)a.buffer;
    sge.lkey = a.mr->lkey;
    must(ibv_post_send(a.qp, &wr, &bad) == 0, "post");
    must(ibv_destroy_ah(wr.wr.ud.ah) == 0, "ibv_destroy_ah");
}

static void deregister(bool is_posted, bool is_sent) {
    struct end a, b;
    open_devices();
    connect_pair(&a, &b, NULL);
    if (is_posted) must(post_receive(&a, 0, 8, 0) == 0, "receive");
    if (is_sent) must(post(&a, (struct work){.opcode = IBV_WR_SEND, .bytes = 8}) == 0, "post");
    if (!is_posted && !is_sent) {
        must(post_receive(&a, 0, 8, 0) == 0, "receive");
        must(ibv_destroy_qp(a.qp) == 0, "ibv_destroy_qp");
    }
    must(ibv_dereg_mr(a.mr) == 0, "ibv_dereg_mr");
    fprintf(stderr, "works\n");
}

static void deregister_a_posted_receive(void) { deregister(true, false); }
static void deregister_a_queued_send(void) { deregister(false, true); }
static void deregister_after_the_end(void) { deregister(false, false); }

// Queues are made without locks. A list of no work requests is enough.
static struct end ends[2];

static void make_ends(void) {
    setenv("MLX5_SINGLE_THREADED", "1", 1);
    open_devices();
    connect_pair(&ends[0], &ends[1], NULL);
}

static void *post_nothing(void *unused) {
    struct ibv_send_wr *bad;
    must(ibv_post_send(ends[0].qp, NULL, &bad) == 0, "post");
    return unused;
}

static void *receive_nothing(void *unused) {
    struct ibv_recv_wr *bad;
    must(ibv_post_recv(ends[0].qp, NULL, &bad) == 0, "receive");
    return unused;
}

static void *poll_nothing(void *unused) {
    struct ibv_wc wc;
    must(ibv_poll_cq(ends[0].send_cq, 1, &wc) == 0, "poll");
    return unused;
}

static void by_two_threads(void *(*act)(void *)) {
    pthread_t thread;
    make_ends();
    act(NULL);
    must(pthread_create(&thread, NULL, act, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void post_by_two_threads(void) { by_two_threads(post_nothing); }
static void receive_by_two_threads(void) { by_two_threads(receive_nothing); }
static void poll_by_two_threads(void) { by_two_threads(poll_nothing); }

void fault_misuse(void) {
    parents_queue = ibv_create_cq(devices[0].context, 4, NULL, NULL, 0);
    must(parents_queue != NULL, "ibv_create_cq");
    child("poll in a forked child", poll_queue_of_parent);
    child("close in a forked child", close_device_of_parent);
    child("devices of a forked child", open_devices_of_its_own);
    must(ibv_destroy_cq(parents_queue) == 0, "ibv_destroy_cq");
    child("address handle", destroy_a_handle_of_a_queued_datagram);
    child("region of a receive", deregister_a_posted_receive);
    child("region of a send", deregister_a_queued_send);
    child("region of a queue pair that was", deregister_after_the_end);
    child("sends", post_by_two_threads);
    child("receives", receive_by_two_threads);
    child("polls", poll_by_two_threads);
}
