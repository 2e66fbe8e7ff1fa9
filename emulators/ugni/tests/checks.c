// checks.c: what posts refuse, and what fails at the target.
#include "harness.h"

#include <string.h>
#include <sys/mman.h>

static void refused(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, a, b, 8);
    say("checks", "no endpoint: %s", name(GNI_PostFma(NULL, &d)));
    say("checks", "no descriptor: %s", name(GNI_PostFma(a->ep, NULL)));
    d.cq_mode = GNI_CQMODE_LOCAL_EVENT;
    say("checks", "LOCAL event of FMA: %s", name(post(a, &d)));
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT;
    d.type = GNI_POST_RDMA_PUT;
    say("checks", "RDMA by GNI_PostFma: %s", name(GNI_PostFma(a->ep, &d)));
    d.type = GNI_POST_FMA_PUT;
    say("checks", "FMA by GNI_PostRdma: %s", name(GNI_PostRdma(a->ep, &d)));
    say("checks", "FMA by GNI_PostCqWrite: %s", name(GNI_PostCqWrite(a->ep, &d)));
    d = descriptor(GNI_POST_RDMA_PUT, a, b, 8);
    d.cq_mode = GNI_CQMODE_LOCAL_EVENT | GNI_CQMODE_GLOBAL_EVENT;
    say("checks", "LOCAL and GLOBAL without dual events: %s", name(post(a, &d)));
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT;
    d.src_cq_hndl = a->destination;
    say("checks", "queue of memory as the source's: %s", name(post(a, &d)));
    d.src_cq_hndl = NULL;
    d.length = 1UL << 32;
    say("checks", "RDMA of 2^32 bytes: %s", name(post(a, &d)));
    d.length = BUFFER + 1;
    say("checks", "beyond the local memory: %s", name(post(a, &d)));
    d.length = 8;
    d.local_mem_hndl.qword1 ^= 1;
    say("checks", "damaged local handle: %s", name(post(a, &d)));
    d.local_mem_hndl = b->handle;
    say("checks", "local memory of another range: %s", name(post(a, &d)));
    d.local_mem_hndl = a->handle;
    d.rdma_mode = GNI_RDMAMODE_FENCE;
    say("checks", "fence with several channels: %s", name(post(a, &d)));
    d.rdma_mode = 0;
    must(transfer(a, &d) == 0, "put");
    say("checks", "the queue is filled in: %s", d.src_cq_hndl == a->source ? "yes" : "no");
}

static void alignment(struct end *a, struct end *b) {
    static const gni_post_type_t types[] = {GNI_POST_FMA_GET, GNI_POST_RDMA_GET};
    for (int i = 0; i < 2; i++) {
        const char *what = i == 0 ? "FMA" : "RDMA";
        gni_post_descriptor_t d = descriptor(types[i], a, b, 0);
        say("checks", "empty %s get: %s", what, name(post(a, &d)));
        d.length = 6;
        say("checks", "%s get of 6 bytes: %s", what, name(post(a, &d)));
        d.length = 8;
        d.remote_addr += 2;
        say("checks", "%s get from a misaligned address: %s", what, name(post(a, &d)));
        d.remote_addr += 2;
        d.local_addr += 2;
        say("checks", "%s get to a misaligned address: %s", what, name(transfer(a, &d)));
    }
}

// A post that succeeds and then fails; the text that goes with it.
static void failing(struct end *a, gni_post_descriptor_t *d, const char *what) {
    gni_cq_entry_t entry = 0;
    gni_post_descriptor_t *done = NULL;
    char text[64] = "";
    uint32_t recoverable = 7;
    gni_return_t posted = post(a, d), read = wait_for(a->source, &entry);
    gni_return_t completed = GNI_GetCompleted(a->source, entry, &done);
    must(GNI_CqErrorStr(entry, text, sizeof text) == 0, "GNI_CqErrorStr");
    must(GNI_CqErrorRecoverable(entry, &recoverable) == 0, "GNI_CqErrorRecoverable");
    say("checks", "%s: %s, %s, %s, %s, recoverable %u, status %u%s", what, name(posted), name(read), name(completed),
        text, recoverable, (unsigned)d->status, done == d ? "" : ", another descriptor");
}

static void failures(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, a, b, 8);
    gni_mem_handle_t read_only;
    gni_cdm_handle_t cdm;
    gni_nic_handle_t nic;
    gni_mem_handle_t foreign;
    uint32_t address;
    memset(a->buffer, 1, 64);
    memset(b->buffer, 0, 64);
    d.remote_mem_hndl.qword1 ^= 1UL << 53;
    failing(a, &d, "damaged handle");
    memset(&d.remote_mem_hndl, 0, sizeof d.remote_mem_hndl);
    failing(a, &d, "no handle");
    d = descriptor(GNI_POST_FMA_PUT, a, b, 8);
    d.remote_addr += BUFFER - 4;
    failing(a, &d, "beyond the end");
    d = descriptor(GNI_POST_RDMA_PUT, a, b, 8);
    d.remote_addr -= 8;
    failing(a, &d, "before the start");
    must(GNI_MemRegister(b->nic, (uintptr_t)b->buffer, 8, NULL, GNI_MEM_READ_ONLY, -1, &read_only) == 0, "register");
    d = descriptor(GNI_POST_FMA_PUT, a, b, 8);
    d.remote_mem_hndl = read_only;
    failing(a, &d, "write to what can be read");
    d = descriptor(GNI_POST_RDMA_GET, a, b, 8);
    d.remote_mem_hndl = read_only;
    d.remote_addr += 4088;
    say("checks", "beyond the end in the last page: %s", name(transfer(a, &d)));
    d.local_mem_hndl = read_only;
    say("checks", "local handle of another range: %s", name(post(a, &d)));
    must(GNI_MemDeregister(b->nic, &read_only) == 0, "deregister");
    d.local_mem_hndl = a->handle;
    failing(a, &d, "deregistered memory");
    must(GNI_CdmCreate(9, 101, 0x10000, GNI_CDM_MODE_FMA_SHARED, &cdm) == 0, "GNI_CdmCreate");
    must(GNI_CdmAttach(cdm, 0, &address, &nic) == 0, "GNI_CdmAttach");
    must(GNI_MemRegister(nic, (uintptr_t)b->buffer, BUFFER, NULL, 0, -1, &foreign) == 0, "register");
    d = descriptor(GNI_POST_FMA_PUT, a, b, 8);
    d.remote_mem_hndl = foreign;
    failing(a, &d, "memory of another tag");
    must(GNI_MemDeregister(nic, &foreign) == 0, "deregister");
    must(GNI_CdmDestroy(cdm) == 0, "GNI_CdmDestroy");
    say("checks", "what was written: %s", b->buffer[0] == 0 && b->buffer[8] == 0 ? "nothing" : "something");
}

// Gemini's library has a shorter descriptor: what follows it may be out of bounds.
static void short_descriptor(struct end *a, struct end *b) {
    enum { SHORT = 168 };
    uint8_t *page = memory(8192);
    gni_post_descriptor_t d = descriptor(GNI_POST_RDMA_PUT, a, b, 8), *at = (void *)(page + 4096 - SHORT);
    must(mprotect(page + 4096, 4096, PROT_NONE) == 0, "mprotect");
    memcpy(at, &d, SHORT);
    say("checks", "descriptor of 168 bytes: %s", name(transfer(a, at)));
    munmap(page, 8192);
}

void test_checks(void) {
    struct end a, b;
    make_pair(&a, &b, NULL);
    refused(&a, &b);
    alignment(&a, &b);
    failures(&a, &b);
    short_descriptor(&a, &b);
    destroy_pair(&a, &b);
}
