// harness.c: ends, descriptors and completions for all tests.
#include "harness.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

bool gemini;

const char *name(gni_return_t code) { return code < 14 ? gni_err_str[code] + strlen("GNI_RC_") : "?"; }

void *memory(size_t bytes) {
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(buffer != MAP_FAILED, "mmap");
    return buffer;
}

void make_end(struct end *end, uint32_t instance, const struct options *options) {
    static const struct options usual;
    uint32_t modes = GNI_CDM_MODE_FORK_FULLCOPY | GNI_CDM_MODE_FMA_SHARED | GNI_CDM_MODE_ERR_NO_KILL;
    if (options == NULL) options = &usual;
    memset(end, 0, sizeof *end);
    end->instance = instance;
    must(GNI_CdmCreate(instance, 100, 0x10000, modes | options->modes, &end->cdm) == 0, "GNI_CdmCreate");
    must(GNI_CdmAttach(end->cdm, 0, &end->address, &end->nic) == 0, "GNI_CdmAttach");
    must(GNI_CqCreate(end->nic, options->source ? options->source : ENTRIES, 0, GNI_CQ_NOBLOCK, NULL, NULL,
                      &end->source) == 0,
         "GNI_CqCreate");
    must(GNI_CqCreate(end->nic, options->destination ? options->destination : ENTRIES, 0, GNI_CQ_NOBLOCK, NULL, NULL,
                      &end->destination) == 0,
         "GNI_CqCreate");
    end->buffer = memory(BUFFER);
    must(GNI_MemRegister(end->nic, (uintptr_t)end->buffer, BUFFER, options->no_destination ? NULL : end->destination,
                         options->memory, -1, &end->handle) == 0,
         "GNI_MemRegister");
}

void destroy_end(struct end *end) {
    if (end->ep != NULL) must(GNI_EpDestroy(end->ep) == 0, "GNI_EpDestroy");
    must(GNI_MemDeregister(end->nic, &end->handle) == 0, "GNI_MemDeregister");
    must(GNI_CqDestroy(end->source) == 0, "GNI_CqDestroy");
    must(GNI_CqDestroy(end->destination) == 0, "GNI_CqDestroy");
    must(GNI_CdmDestroy(end->cdm) == 0, "GNI_CdmDestroy");
    munmap(end->buffer, BUFFER);
}

gni_ep_handle_t connect_to(struct end *end, uint32_t address, uint32_t instance) {
    gni_ep_handle_t ep;
    must(GNI_EpCreate(end->nic, end->source, &ep) == 0, "GNI_EpCreate");
    must(GNI_EpBind(ep, address, instance) == 0, "GNI_EpBind");
    return ep;
}

void make_pair(struct end *a, struct end *b, const struct options *options) {
    make_end(a, 1, options);
    make_end(b, 2, options);
    a->ep = connect_to(a, b->address, b->instance);
    b->ep = connect_to(b, a->address, a->instance);
}

void destroy_pair(struct end *a, struct end *b) {
    destroy_end(a);
    destroy_end(b);
}

gni_post_descriptor_t descriptor(gni_post_type_t type, const struct end *a, const struct end *b, uint64_t bytes) {
    gni_post_descriptor_t d;
    // Fields that an operation does not use may be anything.
    memset(&d, 0xa5, sizeof d);
    d.type = type;
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT;
    d.dlvr_mode = GNI_DLVMODE_PERFORMANCE;
    d.post_id = 0x1234567890;
    d.local_addr = (uintptr_t)a->buffer;
    if (type != GNI_POST_FMA_PUT && type != GNI_POST_FMA_PUT_W_SYNCFLAG) d.local_mem_hndl = a->handle;
    d.remote_addr = (uintptr_t)b->buffer;
    d.remote_mem_hndl = b->handle;
    d.length = bytes;
    if (type == GNI_POST_RDMA_PUT || type == GNI_POST_RDMA_GET) {
        d.rdma_mode = 0;
        d.src_cq_hndl = NULL;
    }
    return d;
}

gni_return_t post(struct end *a, gni_post_descriptor_t *d) {
    if (d->type == GNI_POST_RDMA_PUT || d->type == GNI_POST_RDMA_GET) return GNI_PostRdma(a->ep, d);
    return d->type == GNI_POST_CQWRITE ? GNI_PostCqWrite(a->ep, d) : GNI_PostFma(a->ep, d);
}

gni_return_t wait_for(gni_cq_handle_t cq, gni_cq_entry_t *entry) {
    gni_return_t code = GNI_RC_NOT_DONE;
    for (int i = 0; i < 100000 && (code = GNI_CqGetEvent(cq, entry)) == GNI_RC_NOT_DONE; i++)
        if (i > 100) {
            struct timespec pause = {0, 50000};
            nanosleep(&pause, NULL);
        }
    return code;
}

bool nothing(gni_cq_handle_t cq) {
    for (int i = 0; i < 5; i++) {
        if (GNI_CqTestEvent(cq) != GNI_RC_NOT_DONE) return false;
        pause_ms(1);
    }
    return true;
}

gni_return_t complete(struct end *a, gni_post_descriptor_t *d) {
    gni_cq_entry_t entry;
    gni_post_descriptor_t *done = NULL;
    gni_return_t code = wait_for(a->source, &entry);
    if (code != GNI_RC_SUCCESS && code != GNI_RC_TRANSACTION_ERROR) return code;
    code = GNI_GetCompleted(a->source, entry, &done);
    must(done == d, "the descriptor that was posted");
    must(d->post_id == 0x1234567890, "the program's post_id");
    must(d->status == (uint64_t)code, "the descriptor's status");
    return code;
}

gni_return_t transfer(struct end *a, gni_post_descriptor_t *d) {
    gni_return_t code = post(a, d);
    return code != GNI_RC_SUCCESS ? code : complete(a, d);
}
