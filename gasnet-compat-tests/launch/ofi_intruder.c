/* An unauthenticated peer, of no job, that uses libfabric to send to the endpoints of a job:
 * messages of all lengths, with the conduit's header but a wrong token, and puts and gets with
 * guessed keys. See network/test_intruders.py.
 *
 * ofi_intruder PROVIDER WHAT ADDRESS PORT...: WHAT is messages, data, long or rma. Prints for each
 * port how many operations were begun, and how the provider says that they ended.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST = 3 << 20, /* bytes of a message: more than the job's receive buffers take */
    KEY = 17,
    SECONDS = 3, /* that the operations on a port may take, unless INTRUDER_SECONDS says otherwise */
    ROUNDS = 8,  /* of long messages: more than the job has receive buffers */
    KINDS = 7    /* of messages of the conduit, and one that does not exist */
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_mr *mr;
static struct fi_info *info;
static void *descriptor;
static unsigned char *buffer;
static unsigned begun, done, failed;

static void ok(int code, const char *what) {
    if (code >= 0) return;
    fprintf(stderr, "ofi_intruder: %s: %s\n", what, fi_strerror(-code));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* An endpoint of its own for the address of a port. */
static void open_endpoint(const char *provider, const char *address, const char *port) {
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    ok(fi_getinfo(FI_VERSION(1, 9), address, port, 0, hints, &info), "fi_getinfo");
    ok(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    ok(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    ok(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    ok(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    ok(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
    ok(fi_mr_reg(domain, buffer, MOST, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, KEY, 0, &mr, NULL), "fi_mr_reg");
    descriptor = fi_mr_desc(mr);
    fi_freeinfo(hints);
}

static void close_endpoint(void) {
    fi_close(&ep->fid);
    fi_close(&mr->fid);
    fi_close(&av->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}

static void progress(void) {
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error;
    ssize_t count = fi_cq_read(cq, &entry, 1);
    if (count > 0) done++;
    memset(&error, 0, sizeof error);
    if (count == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) > 0) failed++;
}

/* One operation: what of the buffer, where there, with which flags. */
struct operation {
    enum { SEND, WRITE, READ } what;
    size_t bytes;
    uint64_t address, key, flags;
};

static void begin(struct operation operation, fi_addr_t peer, double end) {
    static struct fi_context2 contexts[1 << 16];
    struct iovec local = {buffer, operation.bytes};
    struct fi_rma_iov remote = {operation.address, operation.bytes, operation.key};
    struct fi_msg message = {&local, &descriptor, 1, peer, &contexts[begun % (1 << 16)], 99};
    struct fi_msg_rma transfer = {&local, &descriptor, 1, peer, &remote, 1, &contexts[begun % (1 << 16)], 99};
    uint64_t flags = operation.flags | FI_COMPLETION;
    ssize_t code;
    do {
        code = operation.what == SEND    ? fi_sendmsg(ep, &message, flags)
               : operation.what == WRITE ? fi_writemsg(ep, &transfer, flags)
                                         : fi_readmsg(ep, &transfer, flags);
        progress();
    } while (code == -FI_EAGAIN && now() < end);
    if (code == 0) begun++;
    else failed++;
}

/* The conduit's header with this kind, of a rank that may exist, with a token that does not. */
static void header(unsigned kind) {
    uint32_t rank = kind % 2;
    memset(buffer, 0xa5, 64);
    memcpy(buffer + 8, &rank, sizeof rank);
    memset(buffer + 12, 0, 4);
    buffer[14] = (unsigned char)kind;
}

static void messages(fi_addr_t peer, double end) {
    static const size_t sizes[] = {0, 1, 5, 8, 15, 16, 17, 31, 32, 33, 48, 1000, 4096, 20000, 65536, 65568};
    for (unsigned kind = 0; kind <= KINDS; kind++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            header(kind);
            begin((struct operation){SEND, sizes[i], 0, 0, 0}, peer, end);
        }
}

/* Messages with the data of a put, more than fit in all receive buffers, each so short that ofi_rxm
 * sends it at once. */
static void messages_with_data(fi_addr_t peer, double end) {
    for (unsigned i = 0; i < 1000; i++) {
        header(1);
        begin((struct operation){SEND, 16000, 0, 0, FI_REMOTE_CQ_DATA}, peer, end);
    }
}

static void long_messages(fi_addr_t peer, double end) {
    static const size_t sizes[] = {100000, 200000, 1 << 20, (1 << 20) + 1, MOST};
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            header(1);
            begin((struct operation){SEND, sizes[i], 0, 0, 0}, peer, end);
        }
}

static void transfers(fi_addr_t peer, double end) {
    static const size_t sizes[] = {0, 8, 4096, 1 << 20};
    for (unsigned try = 0; try < 8; try++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint64_t address = try % 2 ? 0 : 0x7f0000000000, key = try < 4 ? try:
                (uint64_t) rand() << 32 | rand();
            begin((struct operation){WRITE, sizes[i], address, key, 0}, peer, end);
            begin((struct operation){WRITE, sizes[i], address, key, FI_REMOTE_CQ_DATA}, peer, end);
            begin((struct operation){WRITE, sizes[i], address, key, FI_DELIVERY_COMPLETE}, peer, end);
            begin((struct operation){READ, sizes[i], address, key, 0}, peer, end);
        }
}

int main(int argc, char **argv) {
    const char *limit = getenv("INTRUDER_SECONDS");
    if (argc < 5) return 2;
    buffer = (unsigned char *)aligned_alloc(4096, MOST);
    for (int i = 0; i < MOST; i++) buffer[i] = (unsigned char)rand();
    for (int i = 4; i < argc; i++) {
        fi_addr_t peer;
        begun = done = failed = 0;
        open_endpoint(argv[1], argv[3], argv[i]);
        double end = now() + (limit ? atof(limit) : SECONDS);
        if (fi_av_insert(av, info->dest_addr, 1, &peer, 0, NULL) != 1) return 1;
        if (!strcmp(argv[2], "messages")) messages(peer, end);
        else if (!strcmp(argv[2], "data")) messages_with_data(peer, end);
        else if (!strcmp(argv[2], "long")) long_messages(peer, end);
        else transfers(peer, end);
        while (done + failed < begun && now() < end) progress();
        printf("port %s begun %u done %u failed %u\n", argv[i], begun, done, failed);
        fflush(stdout);
        /* From the last one it goes without a word. */
        if (i + 1 < argc) close_endpoint();
    }
    _Exit(0);
}
