// memory.c: registration.
#include "harness.h"

#include <string.h>
#include <sys/mman.h>

static gni_return_t enroll(struct end *a, void *address, uint64_t length, uint32_t flags, gni_mem_handle_t *handle) {
    return GNI_MemRegister(a->nic, (uintptr_t)address, length, NULL, flags, -1, handle);
}

// A handle that is put together of address and MDD index, in the old format and for any number of
// pages, names the memory of a NIC.
static void rebuilt(struct end *a, struct end *b) {
    uint64_t page = b->handle.qword1 & 0xfffffffffffff, mdd = b->handle.qword2 >> 42 & 0xfff;
    gni_post_descriptor_t d = descriptor(GNI_POST_RDMA_PUT, a, b, 8);
    memcpy(a->buffer, "rebuilt", 8);
    d.remote_mem_hndl = (gni_mem_handle_t){page | mdd << 52, 0xfffffff | 12UL << 28};
    must(transfer(a, &d) == 0, "put by a rebuilt handle");
    say("memory", "rebuilt handle: \"%s\"", (char *)b->buffer);
    d.remote_addr += BUFFER;
    say("memory", "beyond its end: %s", name(transfer(a, &d)));
    d.remote_addr -= BUFFER;
    d.remote_mem_hndl.qword1 = (page + 1) | mdd << 52;
    say("memory", "of another page: %s", name(transfer(a, &d)));
}

void test_memory(void) {
    static const char constant[4096] = "constant";
    gni_mem_handle_t handle;
    struct end a, b;
    make_pair(&a, &b, NULL);
    memset(&handle, 0x77, sizeof handle);
    gni_mem_handle_t untouched = handle;
    say("memory", "no length: %s", name(enroll(&a, a.buffer, 0, 0, &handle)));
    uint8_t *page = memory(3 * 4096);
    must(munmap(page + 4096, 4096) == 0, "munmap");
    say("memory", "not mapped: %s", name(enroll(&a, page, 3 * 4096, 0, &handle)));
    say("memory", "handle after failures: %s",
        memcmp(&handle, &untouched, sizeof handle) == 0 ? "as it was" : "changed");
    say("memory", "constants for writing: %s", name(enroll(&a, (void *)constant, 8, 0, &handle)));
    say("memory", "constants for reading: %s", name(enroll(&a, (void *)constant, 8, GNI_MEM_READ_ONLY, &handle)));
    gni_post_descriptor_t d = descriptor(GNI_POST_RDMA_PUT, &a, &b, 8);
    d.local_addr = (uintptr_t)constant;
    d.local_mem_hndl = handle;
    must(transfer(&a, &d) == 0, "put from there");
    say("memory", "put from there: \"%s\"", (char *)b.buffer);
    d.type = GNI_POST_RDMA_GET;
    say("memory", "get to there: %s", name(post(&a, &d)));
    gni_mem_handle_t copy = handle;
    copy.qword2 ^= 1;
    say("memory", "deregister a damaged handle: %s", name(GNI_MemDeregister(a.nic, &copy)));
    copy = handle;
    say("memory", "deregister a copy: %s", name(GNI_MemDeregister(a.nic, &copy)));
    say("memory", "deregister again: %s", name(GNI_MemDeregister(a.nic, &handle)));
    must(enroll(&a, page, 4096, 0, &handle) == 0, "register");
    must(munmap(page, 4096) == 0, "munmap");
    say("memory", "deregister what was unmapped: %s", name(GNI_MemDeregister(a.nic, &handle)));
    rebuilt(&a, &b);
    // The order of some programs: the queue goes before the memory that names it.
    must(GNI_CqDestroy(b.destination) == 0, "GNI_CqDestroy");
    d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
    say("memory", "put to memory whose queue is gone: %s", name(transfer(&a, &d)));
    must(GNI_CqCreate(b.nic, 8, 0, GNI_CQ_NOBLOCK, NULL, NULL, &b.destination) == 0, "GNI_CqCreate");
    say("memory", "a new queue is not its: %s", nothing(b.destination) ? "yes" : "no");
    destroy_pair(&a, &b);
}
