// device.c: memory of a device as the stand-ins have it (emulators/devices): a file whose pages the
// process may not touch at its own address. The answers are in faults.txt: words of the emulator
// decide how a device takes such memory.
#define _GNU_SOURCE 1
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BYTES = 4 * PAGE, ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static const char *registered(struct ibv_mr *mr) {
    if (mr != NULL) {
        ibv_dereg_mr(mr);
        return "ok";
    }
    switch (errno) {
        case EINVAL: return "EINVAL";
        case EFAULT: return "EFAULT";
        case EBADF: return "EBADF";
        case EOPNOTSUPP: return "EOPNOTSUPP";
        default: return "another error";
    }
}

static void registrations(char *memory, int fd) {
    struct ibv_pd *pd = devices[1].pd;
    uint64_t at = (uintptr_t)memory;
    say("device", "by its address: %s", registered(ibv_reg_mr(pd, memory + 8, PAGE, ACCESS)));
    say("device", "by its address, beyond the end: %s", registered(ibv_reg_mr(pd, memory + PAGE, BYTES, ACCESS)));
    say("device", "a dmabuf: %s", registered(ibv_reg_dmabuf_mr(pd, 8, PAGE, at + 8, fd, ACCESS)));
    say("device", "a dmabuf, beyond the end: %s", registered(ibv_reg_dmabuf_mr(pd, PAGE, BYTES, at, fd, ACCESS)));
    say("device", "a dmabuf, another offset in the page: %s",
        registered(ibv_reg_dmabuf_mr(pd, 8, PAGE, at, fd, ACCESS)));
    say("device", "a dmabuf, on demand: %s",
        registered(ibv_reg_dmabuf_mr(pd, 0, PAGE, at, fd, ACCESS | IBV_ACCESS_ON_DEMAND)));
    say("device", "no descriptor: %s", registered(ibv_reg_dmabuf_mr(pd, 0, PAGE, at, -1, ACCESS)));
}

static void transfer(struct end *a, const char *what, struct work work) {
    work.flags = IBV_SEND_SIGNALED;
    must(post(a, work) == 0, what);
    say_completion("device", what, a->send_cq);
}

// Between host memory of the first device and `mr`, whose memory the program sees through `view`.
static void transfers(const char *how, struct ibv_mr *mr, uint64_t iova, uint8_t *view) {
    struct end a, b;
    say("device", "%s:", how);
    connect_pair(&a, &b, NULL);
    memcpy(a.buffer, "to the device", 14);
    transfer(&a, "write", (struct work){.opcode = IBV_WR_RDMA_WRITE, .bytes = 14, .remote = iova, .rkey = mr->rkey});
    say("device", "there: %s", view);
    memcpy(view + 100, "from the device", 16);
    transfer(&a, "read",
             (struct work){.opcode = IBV_WR_RDMA_READ, .bytes = 16, .remote = iova + 100, .rkey = mr->rkey});
    say("device", "here: %s", a.buffer);
    memset(view + 200, 1, 8);
    transfer(&a, "fetch and add",
             (struct work){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                           .bytes = 8,
                           .remote = iova + 200,
                           .rkey = mr->rkey,
                           .compare_add = 1});
    say("device", "the lowest byte there: %d", view[200]);
    memcpy(a.buffer, "overwritten", 12);
    must(post_receive(&a, 0, 64, 0) == 0, "receive");
    struct ibv_sge sge = {iova + 100, 16, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    must(ibv_post_send(b.qp, &wr, &bad) == 0, "send");
    say_completion("device", "send from it", a.recv_cq);
    say("device", "arrived: %s", a.buffer);
    transfer(&a, "write beyond the end",
             (struct work){.opcode = IBV_WR_RDMA_WRITE, .bytes = 14, .remote = iova + 2 * PAGE, .rkey = mr->rkey});
    destroy_pair(&a, &b);
    must(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

void fault_device(void) {
    int fd = memfd_create("device", MFD_CLOEXEC), access = ACCESS | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    must(fd >= 0 && ftruncate(fd, BYTES) == 0, "memfd_create");
    char *memory = mmap(NULL, BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    uint8_t *view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(memory != MAP_FAILED && view != MAP_FAILED, "mmap");
    registrations(memory, fd);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(devices[1].pd, PAGE + 8, 2 * PAGE, 0x10008, fd, access);
    if (mr) transfers("a dmabuf", mr, 0x10008, view + PAGE + 8);
    must(close(fd) == 0, "close");
    mr = ibv_reg_mr(devices[1].pd, memory + PAGE + 8, 2 * PAGE, access);
    if (mr) transfers("peer memory", mr, (uintptr_t)memory + PAGE + 8, view + PAGE + 8);
    munmap(memory, BYTES);
    munmap(view, BYTES);
}
