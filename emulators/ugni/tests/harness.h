/* harness.h: what the tests of the emulator of uGNI share. Only the public API is used, so that the
 * programs could also run on a Cray; what they print is compared. */
#ifndef HARNESS_H
#define HARNESS_H

#include "suite.h"

#include <gni_pub.h>
#include <stdint.h>

enum { BUFFER = 1 << 16, ENTRIES = 64, RESULTS = BUFFER - 4096 };

/* One end: a domain on a NIC with its queues, registered memory, and an endpoint to a peer. */
struct end {
    gni_cdm_handle_t cdm;
    gni_nic_handle_t nic;
    gni_cq_handle_t source, destination;
    gni_ep_handle_t ep;
    gni_mem_handle_t handle;
    uint8_t *buffer;
    uint32_t address, instance;
};

/* Differences from the usual end. */
struct options {
    uint32_t modes, memory;       /* added to the usual ones */
    uint32_t source, destination; /* entries; 0: ENTRIES */
    bool no_destination;
};

extern bool gemini;

/* The name of a return code. */
const char *name(gni_return_t code);

void *memory(size_t bytes);
void make_end(struct end *end, uint32_t instance, const struct options *options);
void destroy_end(struct end *end);
gni_ep_handle_t connect_to(struct end *end, uint32_t address, uint32_t instance);
/* Two ends with an endpoint each to the other. */
void make_pair(struct end *a, struct end *b, const struct options *options);
void destroy_pair(struct end *a, struct end *b);

/* A descriptor from the start of a's buffer to that of b's. */
gni_post_descriptor_t descriptor(gni_post_type_t type, const struct end *a, const struct end *b, uint64_t bytes);
gni_return_t post(struct end *a, gni_post_descriptor_t *d);
/* The next entry of a queue within some seconds. */
gni_return_t wait_for(gni_cq_handle_t cq, gni_cq_entry_t *entry);
/* Whether nothing comes for some milliseconds. */
bool nothing(gni_cq_handle_t cq);
/* The code of GNI_GetCompleted for the next event of the source queue; must be this descriptor. */
gni_return_t complete(struct end *a, gni_post_descriptor_t *d);
/* Posts and completes; the first code that is not success. */
gni_return_t transfer(struct end *a, gni_post_descriptor_t *d);

void test_layout(void);
void test_domains(void);
void test_transfers(void);
void test_checks(void);
void test_events(void);
void test_atomics(void);
void test_memory(void);
void test_engine(void);
void test_messages(void);
void test_processes(void);

/* Faults of the emulator, as a program sees them. */
void fault_busy(void);
void fault_errors(void);
void fault_registrations(void);
void fault_reorder(void);
void fault_late(void);
void fault_early(void);
void fault_limits(void);
void fault_threads(void);
void fault_leaks(void);
void fault_kill(void);

#endif
