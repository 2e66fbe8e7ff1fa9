/* ucx: what UCX allows between two processes of this host, without GASNet: the program that
 * conduit-ucx is compared with.
 *
 *   cc -O2 -I programs/perf programs/benches/{ucx,raw}.c programs/perf/limits.c -lucp -lucs -o ucx
 *   UCX_TLS=tcp,self ./ucx [-y] [-w] [-n ROUNDS]
 *
 *   -y  yield between empty polls; the default spins unless both processes share a core
 *   -w  ask for UCP_FEATURE_WAKEUP; nobody sleeps
 *   -n  rounds in each of 11 blocks; a printed time is the median of the blocks
 *
 * Each process has one worker, which it alone uses, and polls it. UCX_TLS and the other variables
 * of UCX select the transport. Every failure ends both processes with status 1. */
#define _GNU_SOURCE
#include "limits.h"
#include "raw.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum {
    MESSAGE = 1, /* id of messages */
    HEADER = 16
};

static int pipe_;  /* socket to the other process */
static pid_t peer; /* rank 0: the other process */
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucp_rkey_h key;
static char *target, *source; /* LARGEST bytes each, registered */
static uint64_t remote;       /* the peer's `target` */
static void *requests[WINDOW];

static _Noreturn void fail(const char *call, ucs_status_t status) {
    fflush(stdout);
    fprintf(stderr, "ucx: rank %d: %s: %s\n", rank, call, ucs_status_string(status));
    exit(1);
}

static void check(const char *call, ucs_status_t status) {
    if (status != UCS_OK) fail(call, status);
}

static void transfer(void *bytes, size_t size, bool out) {
    ssize_t done = out ? send(pipe_, bytes, size, MSG_NOSIGNAL) : recv(pipe_, bytes, size, MSG_WAITALL);
    if (done == (ssize_t)size) return;
    fflush(stdout);
    fprintf(stderr, "ucx: rank %d: between the processes: %s\n", rank, done < 0 ? strerror(errno) : "closed");
    exit(1);
}

/* Sends `size` bytes and receives the peer's, which the caller frees. */
static void *exchange(void *mine, size_t size) {
    size_t theirs = size;
    transfer(&theirs, sizeof theirs, true);
    transfer(&theirs, sizeof theirs, false);
    void *bytes = malloc(theirs);
    if (bytes == NULL) fail("malloc", UCS_ERR_NO_MEMORY);
    transfer(mine, size, true);
    transfer(bytes, theirs, false);
    return bytes;
}

void poll_library(void) {
    if (ucp_worker_progress(worker) == 0 && options.yield) sched_yield();
}

static bool is_done(void *request) {
    return !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
}

/* Waits for an operation and frees its request. */
static void finish(const char *call, void *request) {
    while (!is_done(request)) poll_library();
    ucs_status_t status = UCS_PTR_IS_PTR(request) ? ucp_request_check_status(request) : UCS_PTR_STATUS(request);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    check(call, status);
}

static ucs_status_t on_message(void *argument, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *parameters) {
    (void)argument, (void)header, (void)header_length, (void)data, (void)length, (void)parameters;
    received++;
    return UCS_OK;
}

/* An eager message: a header, and a payload if `bytes` is not 0. */
void send_message(size_t bytes) {
    static char header[HEADER];
    ucp_request_param_t parameters = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    finish("ucp_am_send_nbx", ucp_am_send_nbx(endpoint, MESSAGE, header, HEADER, source, bytes, &parameters));
}

void flush(void) {
    ucp_request_param_t parameters = {0};
    finish("ucp_ep_flush_nbx", ucp_ep_flush_nbx(endpoint, &parameters));
}

void put(size_t bytes, int slot) {
    ucp_request_param_t parameters = {0};
    requests[slot] = ucp_put_nbx(endpoint, source, bytes, remote, key, &parameters);
}

void get(size_t bytes, int slot) {
    ucp_request_param_t parameters = {0};
    requests[slot] = ucp_get_nbx(endpoint, source, bytes, remote, key, &parameters);
}

void complete(int slot) {
    finish("a put or get", requests[slot]);
    requests[slot] = NULL;
}

void add_one(size_t bytes) {
    static uint64_t one = 1, result;
    (void)bytes;
    ucp_request_param_t parameters = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                      .datatype = ucp_dt_make_contig(sizeof one),
                                      .reply_buffer = &result};
    finish("ucp_atomic_op_nbx", ucp_atomic_op_nbx(endpoint, UCP_ATOMIC_OP_ADD, &one, 1, remote, key, &parameters));
}

void put_whole(size_t bytes) {
    put(bytes, 0);
    complete(0);
    flush();
}

void get_whole(size_t bytes) {
    get(bytes, 0);
    complete(0);
}

static void open_worker(void) {
    ucp_params_t parameters = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 |
                                           (options.wakeup ? UCP_FEATURE_WAKEUP : 0)};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = MESSAGE, .cb = on_message};
    ucp_ep_params_t to_peer = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    check("ucp_init", ucp_init(&parameters, NULL, &context));
    check("ucp_worker_create", ucp_worker_create(context, &single, &worker));
    check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker, &handler));
    check("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &length));
    void *theirs = exchange(address, length);
    ucp_worker_release_address(worker, address);
    to_peer.address = theirs;
    check("ucp_ep_create", ucp_ep_create(worker, &to_peer, &endpoint));
    free(theirs);
}

static void *registered(ucp_mem_h *region) {
    void *memory = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap", UCS_ERR_NO_MEMORY);
    memset(memory, 1 + rank, LARGEST);
    ucp_mem_map_params_t parameters = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                       .address = memory,
                                       .length = LARGEST};
    check("ucp_mem_map", ucp_mem_map(context, &parameters, region));
    return memory;
}

static void register_memory(void) {
    ucp_mem_h of_target, of_source;
    void *packed;
    size_t length;
    target = registered(&of_target);
    source = registered(&of_source);
    check("ucp_rkey_pack", ucp_rkey_pack(context, of_target, &packed, &length));
    void *theirs = exchange(packed, length);
    ucp_rkey_buffer_release(packed);
    check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(endpoint, theirs, &key));
    free(theirs);
    uint64_t mine = (uint64_t)(uintptr_t)target;
    uint64_t *address = exchange(&mine, sizeof mine);
    remote = *address;
    free(address);
}

static void run(void) {
    bind_to_core(rank);
    open_worker();
    register_memory();
    if (rank == 0) send_message(8);
    receive(1);
    if (rank == 1) send_message(8);
    if (rank == 0) {
        const char *transports = getenv("UCX_TLS");
        printf("# UCX %s, UCX_TLS=%s, %s%s\n", ucp_get_version_string(), transports ? transports : "",
               options.yield ? "yields" : "spins", options.wakeup ? ", wakeup" : "");
    }
    measure();
}

int main(int argc, char **argv) {
    int sockets[2], status;
    read_options(argc, argv, "ucx", true);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0 || (peer = fork()) < 0) {
        perror("ucx");
        return 1;
    }
    rank = peer == 0;
    if (rank == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
    pipe_ = sockets[rank];
    close(sockets[!rank]);
    run();
    /* UCX is left alone: closing endpoints needs the peer. Rank 1 goes when rank 0 has gone through
     * its last phase. */
    char last = 0;
    transfer(&last, 1, true);
    transfer(&last, 1, false);
    fflush(stdout);
    if (rank == 1) _exit(0);
    return waitpid(peer, &status, 0) != peer || status != 0;
}
