/* harness.h: what the conformance program's tests share. Only the public API of libibverbs is
 * used, so that the program also runs on real devices and on SoftRoCE; what it prints is compared.
 * */
#ifndef HARNESS_H
#define HARNESS_H

#include "suite.h"

#include <infiniband/verbs.h>
#include <stdint.h>

/* A device that is open, and what both ends of all tests use of it. */
struct device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    union ibv_gid gid;
    int gid_index;
    bool global;
};

/* One end of a connection: a QP with its own CQs and a registered buffer. */
struct end {
    struct device *device;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffer;
    uint32_t psn;
};

enum { BUFFER = 16384, DEPTH = 8, SGES = 4, INLINE = 64 };

/* Differences from the usual end. */
struct options {
    enum ibv_qp_type type; /* 0: RC */
    int cq_depth, mr_access, qp_access;
    struct ibv_srq *srq;
    bool sig_all;
};

extern struct device devices[2];

/* Lets time pass for the faults of an emulator with `steps`. False: they have a clock. */
bool step(unsigned milliseconds);

void open_devices(void);
void make_end(struct end *end, struct device *device, const struct options *options);
void destroy_end(struct end *end);
/* The attributes of a step to INIT, RTR or RTS for `end`, connected to a QP of another device. */
struct address {
    uint16_t lid;
    uint32_t qpn, psn;
    union ibv_gid gid;
};
struct address address_of(const struct end *end);
int to_init(struct end *end, int access);
int to_rtr(struct end *end, const struct address *peer);
int to_rts(struct end *end);
void connect_pair(struct end *a, struct end *b, const struct options *options);
void destroy_pair(struct end *a, struct end *b);

/* Posts one work request over the end's own buffer; the errno of the post. */
struct work {
    enum ibv_wr_opcode opcode;
    uint32_t bytes, offset, lkey, rkey, imm, flags;
    uint64_t remote, compare_add, swap;
    uint64_t id;
};
int post(struct end *end, struct work work);
int post_receive(struct end *end, uint32_t offset, uint32_t bytes, uint32_t lkey);
/* The next completion within two seconds; status -1: none. */
struct ibv_wc wait_for(struct ibv_cq *cq);
/* Prints status, id and, of success, what came with it. */
void say_completion(const char *test, const char *what, struct ibv_cq *cq);
/* Whether nothing completes within some milliseconds. */
bool nothing(struct ibv_cq *cq);

/* The tests, by file. */
void test_states(void);
void test_transfers(void);
void test_errors(void);
void test_queues(void);
void test_srq(void);
void test_ud(void);
void test_xrc(void);
void test_memory(void);
void test_extended(void);
void test_processes(void);

/* Faults of the emulator, as a program sees them. */
void fault_offers(void);
void fault_limits(void);
void fault_registrations(void);
void fault_pages(void);
void fault_messages(void);
void fault_footprint(void);
void fault_datagrams(void);
void fault_reuse(void);
void fault_fences(void);
void fault_unmapped(void);
void fault_remapped(void);
void fault_events(void);
void fault_device(void);
void fault_paths(void);
void fault_alternate(void);
void fault_migration(void);
void fault_misuse(void);
void fault_failed(void);
void fault_changes(void);
void fault_lids(void);
void fault_odp(void);
void fault_receives(void);
void fault_kinds(void);
void fault_qkey(void);
void fault_calls(void);

#endif
