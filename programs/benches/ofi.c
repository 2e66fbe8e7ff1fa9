/* ofi: what libfabric allows between two processes of this host, without GASNet: the program that
 * conduit-ofi is compared with.
 *
 *   cc -O2 -I programs/perf programs/benches/ofi.c programs/perf/limits.c -lfabric -o ofi
 *   ./ofi [-p PROVIDER] [-y] [-w] [-f FI_THREAD_SAFE|DOMAIN] [-n ROUNDS]
 *
 *   -p  the provider; the default is "tcp;ofi_rxm"
 *   -y  yield between empty polls; the default spins unless both processes share a core
 *   -w  bind a wait object (FI_WAIT_FD) to the completion queue; nobody sleeps on it
 *   -f  the threading model asked for; the default is FI_THREAD_DOMAIN
 *   -n  rounds in each of 11 blocks; a printed time is the median of the blocks
 *
 * Each process opens one endpoint with one completion queue for both directions. Both poll it, so
 * manual progress suffices. Every failure ends both processes with status 1. */
#define _GNU_SOURCE
#include "limits.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
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
#include <unistd.h>

enum {
    BLOCKS = 11,
    SECONDS = 120, /* a run takes seconds: more is a hang */
    BATCH = 16,    /* completions per fi_cq_read */
    LARGEST_PUT = 4 << 20,
    WINDOW = 8, /* outstanding large puts */
    BUFFERS = 2,
    BUFFER = 1 << 20, /* of multi-receive */
    SLOTS = 512,      /* receives of SLOT bytes, from providers without multi-receive */
    SLOT = BUFFERS * BUFFER / SLOTS,
    LARGEST_MESSAGE = 64,
    OUTSTANDING = 256, /* messages of the flood without credit: fewer than SLOTS */
    CREDITS = 64       /* messages per credit */
};

/* One operation, or one posted receive buffer. The provider owns `context` until the completion. */
struct operation {
    struct fi_context2 context; /* first: completions return its address */
    bool done;
    char *buffer; /* of receives only */
};

/* All registered memory: target and source of puts and gets, receive buffers, messages. */
struct arena {
    char target[LARGEST_PUT], source[LARGEST_PUT];
    char received[BUFFERS * BUFFER];
    char message[LARGEST_MESSAGE];
};

enum send_call { INJECT, SEND, SENDMSG_INJECT };
static const char *const send_names[] = {"fi_inject", "fi_send", "fi_sendmsg with FI_INJECT"};

static struct {
    const char *provider;
    bool yield, wait_object;
    enum fi_threading threading;
    long rounds;
} options = {.provider = "tcp;ofi_rxm", .threading = FI_THREAD_DOMAIN, .rounds = 1000};

static int rank;   /* 0 measures, 1 serves */
static int pipe_;  /* socket to the other process */
static pid_t peer; /* rank 0: the other process */
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *endpoint;
static struct fid_mr *region;
static struct arena *arena;
static void *descriptor; /* of the arena */
static fi_addr_t peer_address;
static bool multi_receive, has_rma;
static struct operation receives[SLOTS];
static struct operation *awaited;
static long received, expected; /* messages, since the start */
static struct { uint64_t target, key; } remote;

static double median(double *times) {
    qsort(times, BLOCKS, sizeof *times, ascending);
    return times[BLOCKS / 2];
}

static _Noreturn void fail(const char *call, ssize_t status) {
    fflush(stdout);
    fprintf(stderr, "ofi: rank %d: %s with provider %s: %s\n", rank, call, options.provider, fi_strerror((int)-status));
    exit(1);
}

static void check(const char *call, ssize_t status) {
    if (status < 0) fail(call, status);
}

static _Noreturn void fail_socket(const char *call) {
    fflush(stdout);
    fprintf(stderr, "ofi: rank %d: %s between the processes: %m\n", rank, call);
    exit(1);
}

static void on_alarm(int signal) {
    static const char message[] =
        "ofi: not finished after 120 s: an operation hangs, or the provider is slow (lower -n)\n";
    (void)signal;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(1);
    _exit(1);
}

/* Rank 1 prints why it failed. A killed rank 1 prints nothing. */
static void on_child(int signal) {
    static const char message[] = "ofi: rank 1 was killed\n";
    int status;
    (void)signal;
    if (waitpid(peer, &status, WNOHANG) != peer || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    if (WIFSIGNALED(status) && write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(1);
    _exit(1);
}

/* The socket carries addresses and keys, and starts phases in which rank 1 does not poll. */
static void exchange(const void *mine, void *theirs, size_t bytes) {
    if (send(pipe_, mine, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) fail_socket("send");
    ssize_t got = recv(pipe_, theirs, bytes, MSG_WAITALL);
    if (got >= 0 && got < (ssize_t)bytes) errno = ECONNRESET;
    if (got != (ssize_t)bytes) fail_socket("recv");
}

static void meet(void) {
    char mine = 0, theirs;
    exchange(&mine, &theirs, 1);
}

static void poll_queue(void);

/* Repeats a call while the provider's queues are full. */
#define POST(call)                                             \
    do {                                                       \
        ssize_t status_;                                       \
        while ((status_ = (call)) == -FI_EAGAIN) poll_queue(); \
        if (status_ < 0) fail(#call, status_);                 \
    } while (0)

static void post_receive(struct operation *receive) {
    struct iovec vector = {receive->buffer, multi_receive ? BUFFER : SLOT};
    struct fi_msg message = {
        .msg_iov = &vector, .desc = &descriptor, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = receive};
    POST(fi_recvmsg(endpoint, &message, multi_receive ? FI_MULTI_RECV : 0));
}

static _Noreturn void fail_completion(void) {
    struct fi_cq_err_entry error = {0};
    char text[256] = "";
    ssize_t status = fi_cq_readerr(cq, &error, 0);
    if (status < 0) fail("fi_cq_readerr", status);
    const char *detail = fi_cq_strerror(cq, error.prov_errno, error.err_data, text, sizeof text);
    fflush(stdout);
    fprintf(stderr, "ofi: rank %d: an operation with provider %s failed: %s (%s, provider error %d)\n", rank,
            options.provider, fi_strerror(error.err), detail ? detail : text, error.prov_errno);
    exit(1);
}

static void poll_queue(void) {
    struct fi_cq_data_entry entries[BATCH];
    ssize_t count = fi_cq_read(cq, entries, BATCH);
    if (count == -FI_EAGAIN) {
        if (options.yield) sched_yield();
        return;
    }
    if (count == -FI_EAVAIL) fail_completion();
    check("fi_cq_read", count);
    for (ssize_t i = 0; i < count; i++) {
        struct operation *operation = entries[i].op_context;
        /* An entry that only releases a multi-receive buffer has no FI_RECV. */
        if (entries[i].flags & FI_RECV) received++;
        if (entries[i].flags & FI_MULTI_RECV || (entries[i].flags & FI_RECV && !multi_receive)) {
            post_receive(operation);
        } else if (!(entries[i].flags & FI_RECV)) {
            /* udp;ofi_rxd of libfabric 1.17 loses the context of sends and puts with FI_INJECT. */
            if (operation == NULL) operation = awaited;
            operation->done = true;
        }
    }
}

static void complete(struct operation *operation) {
    awaited = operation;
    while (!operation->done) poll_queue();
    operation->done = false;
}

/* Waits for `count` more messages. Some may have arrived while this process polled for others. */
static void receive(long count) {
    expected += count;
    while (received < expected) poll_queue();
}

static bool is_socket_address(uint32_t format) {
    return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

static int find_provider(struct fi_info *hints, uint64_t caps) {
    uint32_t version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    hints->caps = caps;
    int status = fi_getinfo(version, NULL, NULL, 0, hints, &info);
    if (status == 0 && is_socket_address(info->addr_format)) {
        fi_freeinfo(info);
        status = fi_getinfo(version, "127.0.0.1", NULL, FI_SOURCE, hints, &info);
    }
    return status;
}

static void open_provider(void) {
    static const uint64_t wanted[] = {FI_MSG | FI_RMA | FI_MULTI_RECV, FI_MSG | FI_RMA, FI_MSG | FI_MULTI_RECV, FI_MSG};
    int status = -FI_ENODATA;
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL) fail("fi_allocinfo", -FI_ENOMEM);
    hints->fabric_attr->prov_name = strdup(options.provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = options.threading;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status < 0; i++) {
        status = find_provider(hints, wanted[i]);
        multi_receive = (wanted[i] & FI_MULTI_RECV) != 0;
        has_rma = (wanted[i] & FI_RMA) != 0;
    }
    fi_freeinfo(hints);
    check("fi_getinfo", status);
}

static void open_endpoint(void) {
    struct fi_cq_attr cq_attributes = {.format = FI_CQ_FORMAT_DATA,
                                       .wait_obj = options.wait_object ? FI_WAIT_FD : FI_WAIT_NONE,
                                       .size = info->tx_attr->size + info->rx_attr->size};
    struct fi_av_attr av_attributes = {.type = info->domain_attr->av_type, .count = 2};
    check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    check("fi_domain", fi_domain(fabric, info, &domain, NULL));
    check("fi_cq_open", fi_cq_open(domain, &cq_attributes, &cq, NULL));
    check("fi_av_open", fi_av_open(domain, &av_attributes, &av, NULL));
    check("fi_endpoint", fi_endpoint(domain, info, &endpoint, NULL));
    check("fi_ep_bind", fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV));
    check("fi_ep_bind", fi_ep_bind(endpoint, &av->fid, 0));
    check("fi_enable", fi_enable(endpoint));
    if (multi_receive) { /* after fi_enable: shm of libfabric 1.17 crashes before */
        size_t least = LARGEST_MESSAGE;
        check("fi_setopt", fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    }
}

static void register_arena(void) {
    uint64_t access = FI_SEND | FI_RECV, mode = (uint64_t)info->domain_attr->mr_mode;
    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) fail("mmap", -errno);
    memset(arena, 1 + rank, sizeof *arena);
    if (has_rma) access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if (has_rma || mode & FI_MR_LOCAL) {
        check("fi_mr_reg", fi_mr_reg(domain, arena, sizeof *arena, access, 0, 1, 0, &region, NULL));
        if (mode & FI_MR_ENDPOINT) {
            check("fi_mr_bind", fi_mr_bind(region, &endpoint->fid, 0));
            check("fi_mr_enable", fi_mr_enable(region));
        }
        descriptor = fi_mr_desc(region);
        remote.key = fi_mr_key(region);
    }
    remote.target = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)arena->target : offsetof(struct arena, target);
    exchange(&remote, &remote, sizeof remote);
}

static void connect_peer(void) {
    char mine[256] = "", theirs[256];
    size_t bytes = sizeof mine;
    check("fi_getname", fi_getname(&endpoint->fid, mine, &bytes));
    exchange(mine, theirs, sizeof mine);
    int inserted = fi_av_insert(av, theirs, 1, &peer_address, 0, NULL);
    if (inserted != 1) fail("fi_av_insert", inserted < 0 ? inserted : -FI_EADDRNOTAVAIL);
}

static void post_receives(void) {
    int count = multi_receive ? BUFFERS : SLOTS;
    if (!multi_receive && (size_t)count > info->rx_attr->size) count = (int)info->rx_attr->size;
    for (int i = 0; i < count; i++) {
        receives[i].buffer = arena->received + (size_t)i * (multi_receive ? BUFFER : SLOT);
        post_receive(&receives[i]);
    }
}

static void send_message(size_t bytes, enum send_call call) {
    static struct operation operation; /* static: `awaited` keeps its address */
    if (call == INJECT) {
        POST(fi_inject(endpoint, arena->message, bytes, peer_address));
        return;
    }
    if (call == SEND) {
        POST(fi_send(endpoint, arena->message, bytes, descriptor, peer_address, &operation));
    } else {
        struct iovec vector = {arena->message, bytes};
        struct fi_msg message = {
            .msg_iov = &vector, .desc = &descriptor, .iov_count = 1, .addr = peer_address, .context = &operation};
        POST(fi_sendmsg(endpoint, &message, FI_INJECT | FI_COMPLETION));
    }
    complete(&operation);
}

static void put(size_t bytes, uint64_t flags, struct operation *operation) {
    struct iovec vector = {arena->source, bytes};
    struct fi_rma_iov target = {remote.target, bytes, remote.key};
    struct fi_msg_rma message = {.msg_iov = &vector,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = peer_address,
                                 .rma_iov = &target,
                                 .rma_iov_count = 1,
                                 .context = operation};
    POST(fi_writemsg(endpoint, &message, flags | FI_COMPLETION));
}

static void get(size_t bytes, struct operation *operation) {
    POST(fi_read(endpoint, arena->source, bytes, descriptor, peer_address, remote.target, remote.key, operation));
}

/* Ends a phase of puts or gets, in which rank 1 polls for this message. */
static void end_phase(void) {
    if (rank == 0) {
        send_message(8, SEND);
    } else {
        receive(1);
    }
}

/* Puts with these flags, or gets. */
static double rma_us(size_t bytes, bool is_put, uint64_t flags) {
    double times[BLOCKS] = {0};
    struct operation operation = {.done = false};
    for (int block = -1; rank == 0 && block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < options.rounds; i++) {
            if (is_put) put(bytes, flags, &operation);
            else get(bytes, &operation);
            complete(&operation);
        }
        if (block >= 0) times[block] = (now_us() - start) / (double)options.rounds;
    }
    end_phase();
    return median(times);
}

/* Puts of `bytes`, `window` of them outstanding. Returns MB/s. */
static double put_series(size_t bytes, int window, long count) {
    struct operation operations[WINDOW] = {0};
    double start = now_us();
    for (long i = 0; i < count + window; i++) {
        struct operation *operation = &operations[i % window];
        if (i >= window) complete(operation);
        if (i < count) put(bytes, FI_DELIVERY_COMPLETE, operation);
    }
    return (double)bytes * (double)count / (now_us() - start);
}

static double bandwidth(size_t bytes, int window) {
    double rates[BLOCKS] = {0};
    if (rank == 0) {
        /* A block puts 64 MiB, or what the provider puts in 0.2 s, but at least one window. */
        double rate = put_series(bytes, window, window);
        double most = rate * 200e3 < 64 << 20 ? rate * 200e3 : 64 << 20;
        long windows = (long)(most / (double)bytes) / window;
        for (int block = 0; block < BLOCKS; block++) {
            rates[block] = put_series(bytes, window, (windows ? windows : 1) * window);
        }
    }
    end_phase();
    return median(rates);
}

static double round_trip_us(size_t bytes, enum send_call call) {
    double times[BLOCKS] = {0};
    for (int block = -1; block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < options.rounds; i++) {
            if (rank == 0) send_message(bytes, call);
            receive(1);
            if (rank == 1) send_message(bytes, call);
        }
        if (block >= 0) times[block] = (now_us() - start) / (double)options.rounds;
    }
    return median(times);
}

/* Microseconds per message from rank 0 to rank 1. A credit comes back per CREDITS messages. */
static double flood_us(size_t bytes, enum send_call call) {
    double times[BLOCKS] = {0};
    long count = (options.rounds * 4 + CREDITS - 1) / CREDITS * CREDITS;
    for (int block = -1; block < BLOCKS; block++) {
        long first = expected;
        double start = now_us();
        if (rank == 0) {
            for (long i = 0; i < count; i++) {
                while (i - (received - first) * CREDITS >= OUTSTANDING) poll_queue();
                send_message(bytes, call);
            }
            receive(count / CREDITS);
        } else {
            for (long i = CREDITS; i <= count; i += CREDITS) {
                receive(CREDITS);
                send_message(8, call);
            }
        }
        if (block >= 0) times[block] = (now_us() - start) / (double)count;
    }
    return median(times);
}

/* Nanoseconds of a poll that finds nothing, while rank 1 sleeps. */
static double empty_poll_ns(void) {
    double times[BLOCKS] = {0};
    struct fi_cq_data_entry entry;
    meet();
    for (int block = -1; rank == 0 && block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < options.rounds; i++) {
            ssize_t count = fi_cq_read(cq, &entry, 1);
            if (count != -FI_EAGAIN) fail("fi_cq_read that should find nothing", count < 0 ? count : -FI_EOTHER);
        }
        if (block >= 0) times[block] = (now_us() - start) * 1000 / (double)options.rounds;
    }
    meet();
    return median(times);
}

static void print(const char *what, const char *how, double value, const char *unit) {
    if (rank != 0) return;
    printf("#   %s%s%s: %.*f %s\n", what, *how ? ", " : "", how, value < 1000 ? 2 : 0, value, unit);
    fflush(stdout);
}

static void measure(void) {
    for (int call = INJECT; call <= SENDMSG_INJECT; call++) {
        for (size_t bytes = 8; bytes <= 64; bytes *= 8) {
            if (call != SEND && bytes > info->tx_attr->inject_size) continue;
            print(bytes == 8 ? "round trip of 8 bytes" : "round trip of 64 bytes", send_names[call],
                  round_trip_us(bytes, call), "us");
        }
    }
    for (int call = INJECT; call <= SENDMSG_INJECT; call++) {
        if (call != SEND && info->tx_attr->inject_size < 64) continue;
        print("flood of 64 bytes", send_names[call], flood_us(64, call), "us per message");
    }
    if (has_rma) {
        print("put of 8 bytes", "delivery complete", rma_us(8, true, FI_DELIVERY_COMPLETE), "us");
        if (info->tx_attr->inject_size >= 8) {
            print("put of 8 bytes", "delivery complete, FI_INJECT", rma_us(8, true, FI_DELIVERY_COMPLETE | FI_INJECT),
                  "us");
        }
        print("put of 8 bytes", "default completion", rma_us(8, true, 0), "us");
        print("get of 8 bytes", "", rma_us(8, false, 0), "us");
        for (int window = 1; window <= WINDOW; window *= WINDOW) {
            const char *how = window == 1 ? "1 outstanding" : "8 outstanding";
            print("puts of 64 KiB", how, bandwidth(64 << 10, window), "MB/s");
            print("puts of 1 MiB", how, bandwidth(1 << 20, window), "MB/s");
            print("puts of 4 MiB", how, bandwidth(4 << 20, window), "MB/s");
        }
    }
    print("empty fi_cq_read", "", empty_poll_ns(), "ns");
}

static void close_all(void) {
    meet();
    check("fi_close of the endpoint", fi_close(&endpoint->fid));
    if (region) check("fi_close of the memory region", fi_close(&region->fid));
    check("fi_close of the address vector", fi_close(&av->fid));
    check("fi_close of the completion queue", fi_close(&cq->fid));
    check("fi_close of the domain", fi_close(&domain->fid));
    check("fi_close of the fabric", fi_close(&fabric->fid));
    fi_freeinfo(info);
}

static void run(void) {
    double start = now_us();
    open_provider();
    double found = now_us();
    open_endpoint();
    double opened = now_us();
    bind_to_core(rank); /* not the threads of the provider */
    register_arena();
    connect_peer();
    post_receives();
    meet();
    double connect = now_us();
    if (rank == 0) send_message(8, SEND);
    receive(1);
    if (rank == 1) send_message(8, SEND);
    double connected = now_us();
    if (rank == 0) {
        printf("# libfabric %u.%u, provider %s, %s, %s, wait object %s\n", FI_MAJOR(fi_version()),
               FI_MINOR(fi_version()), info->fabric_attr->prov_name, fi_tostr(&options.threading, FI_TYPE_THREADING),
               options.yield ? "yields" : "spins", options.wait_object ? "FI_WAIT_FD" : "none");
        printf("#   receives by %s, inject size %zu\n", multi_receive ? "FI_MULTI_RECV" : "single buffers",
               info->tx_attr->inject_size);
        printf("#   start-up: fi_getinfo %.2f ms, endpoint %.2f ms, first round trip %.2f ms\n", (found - start) / 1000,
               (opened - found) / 1000, (connected - connect) / 1000);
    }
    measure();
    close_all();
}

static _Noreturn void usage(void) {
    fprintf(stderr, "usage: ofi [-p PROVIDER] [-y] [-w] [-f FI_THREAD_SAFE|DOMAIN] [-n ROUNDS]\n");
    exit(2);
}

static void read_options(int argc, char **argv) {
    int option;
    while ((option = getopt(argc, argv, "p:ywf:n:")) != -1) {
        if (option == 'p') options.provider = optarg;
        else if (option == 'y') options.yield = true;
        else if (option == 'w') options.wait_object = true;
        else if (option == 'n') options.rounds = atol(optarg);
        else if (option == 'f' && (!strcmp(optarg, "FI_THREAD_SAFE") || !strcmp(optarg, "SAFE")))
            options.threading = FI_THREAD_SAFE;
        else if (option == 'f' && (!strcmp(optarg, "FI_THREAD_DOMAIN") || !strcmp(optarg, "DOMAIN")))
            options.threading = FI_THREAD_DOMAIN;
        else usage();
    }
    if (optind != argc || options.rounds < 1 || options.rounds > 100000000) usage();
}

int main(int argc, char **argv) {
    int sockets[2];
    cpu_set_t cores;
    read_options(argc, argv);
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < 2) options.yield = true;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0) fail_socket("socketpair");
    signal(SIGALRM, on_alarm);
    pid_t parent = getpid();
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL); /* until `peer` is set */
    signal(SIGCHLD, on_child);
    peer = fork();
    if (peer < 0) fail_socket("fork");
    rank = peer == 0;
    if (rank == 1) {
        signal(SIGCHLD, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) return 1;
    }
    sigprocmask(SIG_UNBLOCK, &child, NULL);
    alarm(SECONDS);
    pipe_ = sockets[rank];
    close(sockets[!rank]);
    run();
    if (rank == 1) return 0;
    signal(SIGCHLD, SIG_DFL);
    int status;
    /* -1: the signal handler has waited for it, and it succeeded. */
    return waitpid(peer, &status, 0) == peer && status != 0;
}
