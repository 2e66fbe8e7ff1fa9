// memory.c: what can be registered, and what registration grants.
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const char *registered(struct ibv_mr *mr) {
    if (mr != NULL) {
        ibv_dereg_mr(mr);
        return "ok";
    }
    return errno == EINVAL ? "EINVAL" : errno == EFAULT ? "EFAULT" : errno == ENOMEM ? "ENOMEM" : "another error";
}

static void registrations(void) {
    struct ibv_pd *pd = devices[0].pd;
    char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    must(munmap(memory + 4096, 4096) == 0, "munmap");
    must(mprotect(memory + 8192, 4096, PROT_READ) == 0, "mprotect");
    say("memory", "a page: %s", registered(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE)));
    say("memory", "a page and one that is not mapped: %s",
        registered(ibv_reg_mr(pd, memory, 8192, IBV_ACCESS_LOCAL_WRITE)));
    say("memory", "read-only memory for writing: %s",
        registered(ibv_reg_mr(pd, memory + 8192, 4096, IBV_ACCESS_LOCAL_WRITE)));
    say("memory", "read-only memory for reading: %s", registered(ibv_reg_mr(pd, memory + 8192, 4096, 0)));
    say("memory", "remote write without local write: %s",
        registered(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE)));
    munmap(memory, 3 * 4096);
}

static int write_with(struct end *a, uint32_t rkey, uint64_t remote) {
    return post(
        a, (struct work){
               .opcode = IBV_WR_RDMA_WRITE, .bytes = 8, .remote = remote, .rkey = rkey, .flags = IBV_SEND_SIGNALED});
}

static void keys(void) {
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_pd *other = ibv_alloc_pd(devices[1].context);
    struct end a, b;
    connect_pair(&a, &b, NULL);
    struct ibv_mr *mr = ibv_reg_mr_iova(devices[1].pd, b.buffer, 4096, 0x10000, access);
    must(mr != NULL, "ibv_reg_mr_iova");
    memcpy(a.buffer, "iova...", 8);
    must(write_with(&a, mr->rkey, 0x10000 + 128) == 0, "write");
    say_completion("memory", "write by another base address", a.send_cq);
    say("memory", "arrived: %s", b.buffer + 128);
    uint32_t rkey = mr->rkey;
    must(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
    must(write_with(&a, rkey, 0x10000) == 0, "write");
    say_completion("memory", "write after deregistration", a.send_cq);
    destroy_pair(&a, &b);
    connect_pair(&a, &b, NULL);
    mr = ibv_reg_mr(other, b.buffer, 4096, access);
    must(mr != NULL, "ibv_reg_mr");
    say("memory", "freeing a PD in use: %s", ibv_dealloc_pd(other) == EBUSY ? "EBUSY" : "another error");
    must(write_with(&a, mr->rkey, (uintptr_t)b.buffer) == 0, "write");
    say_completion("memory", "write to memory of another PD", a.send_cq);
    must(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(other) == 0, "ibv_dealloc_pd");
    destroy_pair(&a, &b);
}

void test_memory(void) {
    registrations();
    keys();
}
