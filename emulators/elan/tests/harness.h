/* harness.h: what the tests of the emulator of Elan share. Processes are forked, attach to the
 * network, and run one function; what they print is compared. */
#ifndef HARNESS_H
#define HARNESS_H

#include "shim.h"
#include "suite.h"

#include <stdint.h>

/* The library of GASNET_ELAN_SHIM. */
extern const gasnet_elan_shim_t *shim;

/* The attachment of this process, or of this thread. */
extern __thread gasnet_elan_t *elan;
extern __thread gasnet_elan_info_t info;
extern __thread uint32_t me, size;

/* Runs a function in processes. Ends the program if one of them fails. */
void run(uint32_t processes, void (*part)(void));
/* The same in threads of one process, each with an attachment of its own, by two jobs at a time. */
void run_threads(uint32_t threads, void (*part)(void));
/* Runs it in processes of which some may die: prints how each that did not exit with 0 ended, and
 * what it wrote to stderr. */
void run_fatal(const char *test, uint32_t processes, void (*part)(void));
/* The same for one process, which is not attached. */
void run_alone(const char *test, void (*part)(void));
/* The place of a rank in a new job of each `run`. */
gasnet_elan_place_t place(uint32_t rank, uint32_t processes);

/* Attaches, as `run` does. Only process 0 prints then. */
void attach(uint32_t rank, uint32_t processes);
/* Whole pages, and their network address. */
uint8_t *pages(size_t bytes);
/* Symmetric memory whose network address is the same everywhere. */
uint8_t *symmetric(size_t bytes, uint64_t *address);
/* A queue for messages of 64 bytes. */
gasnet_elan_queue_t *make_queue(size_t slots);

void test_start(void);
void test_memory(void);
void test_transfers(void);
void test_queues(void);
void test_ports(void);
void test_collectives(void);
void test_together(void);
void test_ends(void);
/* Parts of test_together. */
void transfer_parts(void);
void queue_parts(void);
void port_parts(void);
void collective_parts(void);

/* Misuse, and what faults look like. */
void fault_misuse(void);
void fault_late(void);
void fault_reorder(void);
void fault_limits(void);
void fault_waits(void);
void fault_threads(void);
void fault_start(void);
void fault_leaks(void);
void fault_spoilt(void);

#endif
