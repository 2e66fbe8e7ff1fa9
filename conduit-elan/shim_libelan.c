/* The interface of shim.h over Quadrics' libelan. A site with QsNet compiles this file against the
 * vendor's headers; shim.h is the contract, docs/elan.md says how to build it.
 *
 *   cc -std=c99 -O2 -fPIC -shared -DGASNET_ELAN=4 -DGASNET_ELAN_RMS -o libgasnet_elan_shim.so \
 *      shim_libelan.c -lelan -lelan4 -lrmsapi -lrmscall -lpthread
 *
 *   GASNET_ELAN        4 (QsNetII) or 3 (QsNet; link with -lelan3). Required.
 *   GASNET_ELAN_RMS    RMS runs the jobs.
 *   GASNET_ELAN_SLURM  Slurm runs the jobs: <slurm/slurm.h>, -lslurm.
 *   GASNET_ELAN_WITHOUT_OPTIONAL  libelan lacks elan_done and elan_queueMaxSlotSize.
 *   GASNET_ELAN_BASE_FLAGS, GASNET_ELAN_PORT_FLAGS  1 or 0: elan_baseInit and elan_tportInit take
 *                      flags. Set one if the compiler rejects a call.
 *   GASNET_ELAN3_WINDOW_BYTES, GASNET_ELAN3_WINDOW_BASE  See "The window".
 *
 * NOT RUN: this file has never met a QsNet. It is compiled against tests/libelan, whose
 * declarations are reconstructed from programs that call libelan. Comments mark what those
 * programs do not show: "Deduced" follows from their code, "Unknown" has no evidence.
 *
 * Threads: libelan is thread-safe from 1.4.0 on, except ELAN_QUEUE_TX and ELAN_QUEUE_RX, which
 * this file does not use. Only the window has a lock here.
 *
 * Waiting: elan_wait, elan_queueWait and the collectives spin or sleep as LIBELAN_WAITTYPE says. */

/* MAP_ANONYMOUS and MAP_NORESERVE, with C libraries of 2003 too. */
#define _GNU_SOURCE 1

#include "shim.h"

#include <elan/elan.h>
#include <elan/version.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(GASNET_ELAN)
#error "Define GASNET_ELAN as 3 (QsNet, libelan3) or 4 (QsNetII, libelan4)."
#elif GASNET_ELAN == 3
#include <elan3/elan3.h>
#elif GASNET_ELAN == 4
#include <elan4/library.h> /* Only so that the compiler rejects an installation for Elan3. */
#else
#error "GASNET_ELAN is neither 3 nor 4."
#endif

#ifdef GASNET_ELAN_RMS
/* Declared here, because no program shows in which header RMS has them. Types: deduced. */
int rms_resourceId(char *name);
int rms_killResource(int id, int signal);
char *rms_errorString(int status);
int rms_getprgid(pid_t pid, int *id);
int rms_prgsignal(int id, int signal);
#endif
#ifdef GASNET_ELAN_SLURM
#include <slurm/slurm.h>
#endif

/* 1.4.8 made sizes size_t and added the flags of most calls. */
#if !defined(QSNETLIBS_VERSION_CODE) || !defined(QSNETLIBS_VERSION)
#error "This libelan is older than 1.4.8: <elan/version.h> has no QSNETLIBS_VERSION_CODE."
#elif QSNETLIBS_VERSION_CODE < QSNETLIBS_VERSION(1, 4, 8)
#error "This libelan is older than 1.4.8, the first version that this file supports."
#endif

/* Callers disagree about the versions: 1.4.1, 1.4.6 or 1.4.10 for elan_baseInit, 1.4.8 or 1.4.12
 * for elan_tportInit. A wrong choice does not compile. */
#ifndef GASNET_ELAN_BASE_FLAGS
#define GASNET_ELAN_BASE_FLAGS (QSNETLIBS_VERSION_CODE >= QSNETLIBS_VERSION(1, 4, 10))
#endif
#ifndef GASNET_ELAN_PORT_FLAGS
#define GASNET_ELAN_PORT_FLAGS 1
#endif

/* Versions before these constants take 1 and 0. */
#ifdef ELAN_GLOBAL_DEST
#define GLOBAL_DEST ELAN_GLOBAL_DEST
#else
#define GLOBAL_DEST 1
#endif

#ifdef GASNET_ELAN_WITHOUT_OPTIONAL
#define elan_queueMaxSlotSize(state) (GASNET_ELAN == 3 ? 320 : 2048)
#endif
#ifdef ELAN_RAIL_ALL
#define ALL_RAILS ELAN_RAIL_ALL
#else
#define ALL_RAILS 0
#endif

/* The string that elan_checkVersion compares. Deduced: ARMCI passes this, with 1.4.6 too. */
#ifdef ELAN_VERSION
#define BUILT_FOR ELAN_VERSION
#else
#define BUILT_FOR QSNETLIBS_VERSION_STRING
#endif

/* The limit of libelan for one ELAN_PGCTRL. */
#define MOST_PUTS 64

/* libelan attaches once to the network in the life of a process, so that one object suffices. */
struct gasnet_elan {
    ELAN_BASE *base;
    ELAN_STATE *state;
    uint32_t throttle;
};
static gasnet_elan_t elan;

/* libelan aborts the process itself when the network fails. This is for calls that return nothing,
 * which happens when memory for descriptors runs out. */
static void die(const char *call) {
    fprintf(stderr, "gasnet: rank %u: %s of libelan failed. Raise LIBELAN_ALLOC_SIZE and LIBELAN_GALLOC_SIZE.\n",
            (unsigned)elan.state->vp, call);
    abort();
}

static void explain(char *why, size_t why_bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, why_bytes, format, list);
    va_end(list);
}

/* ---- The window ----
 *
 * Elan4 translates all of a process's memory, and a network address is a virtual address.
 *
 * Elan3 has addresses of 32 bits, and a table in each process that maps ranges of them to memory.
 * elan_put and elan_get take the remote place as a pointer, which they translate with the table of
 * the *calling* process. A place in a remote segment thus needs a pointer here that translates to
 * the Elan address which the segment has there.
 *
 * The window is a range of Elan addresses that is the same in all processes. At first each process
 * maps it to a reservation, memory that nobody may access: every address of the window translates
 * from the start. `map` maps a part of the window to memory of the client instead. A network
 * address in the window is an offset with IN_WINDOW. `remote` makes of it the pointer that
 * translates to this place of the window: one into the reservation or, where this process has
 * mapped memory of its own, into that. Symmetric memory needs no translation: its virtual address
 * and its Elan address are the same in all processes (LIBELAN_GALLOC_MBASE, LIBELAN_GALLOC_EBASE).
 *
 * The reservation is by default a block from elan_gallocMain, which is at the same Elan address in
 * all processes by definition. That costs no memory, but LIBELAN_GALLOC_SIZE must be about twice
 * the window. With GASNET_ELAN3_WINDOW_BASE, an Elan address that is free in all processes, it is
 * memory of its own and independent of that.
 *
 * Evidence: LA-MPI replaces memory under Elan addresses with these three calls in this order.
 * Unknown: whether elan3_setperm accepts PROT_NONE memory, and memory that another range maps
 * also; the reservation therefore is protected after it is mapped, and `map` clears first. */
#if GASNET_ELAN == 3

/* elan3_setperm takes sizes as int. */
#ifndef GASNET_ELAN3_WINDOW_BYTES
#define GASNET_ELAN3_WINDOW_BYTES (512u << 20)
#elif GASNET_ELAN3_WINDOW_BYTES > 0x7fff0000
#error "GASNET_ELAN3_WINDOW_BYTES must be less than 2 GiB."
#endif
/* A smaller one is of no use: `start` reports that nothing can be mapped. */
#define LEAST_WINDOW ((size_t)1 << 20)
#define IN_WINDOW ((uint64_t)1 << 62)

/* Mapped memory, in the order of offsets. */
struct range {
    struct range *next;
    uint64_t offset;
    char *memory;
    size_t bytes;
};
static struct {
    char *memory;
    E3_Addr elan;
    size_t bytes;
    struct range *ranges;
    /* Held for reading while libelan translates pointers. */
    pthread_rwlock_t lock;
} window = {NULL, 0, 0, NULL, PTHREAD_RWLOCK_INITIALIZER};

/* Maps memory at an offset of the window, in place of what is there. */
static int window_set(char *memory, uint64_t offset, size_t bytes) {
    ELAN3_CTX *ctx = (ELAN3_CTX *)elan.state->ctx;
    E3_Addr address = window.elan + (E3_Addr)offset;
    elan3_clearperm_main(ctx, memory, (int)bytes);
    elan3_clearperm_elan(ctx, address, (int)bytes);
    return elan3_setperm(ctx, memory, address, (int)bytes, ELAN_PERM_REMOTEALL) >= 0;
}

/* Collective. Sets window.bytes, 0 where the pool has no room. Returns 0 when this process alone
 * fails. */
static int window_start(char *why, size_t why_bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = GASNET_ELAN3_WINDOW_BYTES / page * page;
#ifdef GASNET_ELAN3_WINDOW_BASE
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        explain(why, why_bytes, "cannot reserve %lu bytes: %s", (unsigned long)bytes, strerror(errno));
        return 0;
    }
    window.memory = memory;
    window.elan = GASNET_ELAN3_WINDOW_BASE;
    if (!window_set(window.memory, 0, bytes)) {
        explain(why, why_bytes, "elan3_setperm refuses %lu bytes at the Elan's address 0x%lx", (unsigned long)bytes,
                (unsigned long)window.elan);
        return 0;
    }
#else
    /* Deduced: galloc_size is in bytes. The first bound avoids requests that libelan might treat as
     * fatal; a smaller answer is the same everywhere, because the pool is. */
    while (bytes > elan.base->galloc_size / 2) bytes = bytes / 2 / page * page;
    (void)why;
    (void)why_bytes;
    for (; bytes >= LEAST_WINDOW; bytes = bytes / 2 / page * page) {
        window.memory = elan_gallocMain(elan.base, elan.base->allGroup, page, bytes);
        if (window.memory != NULL) break;
    }
    if (window.memory == NULL) return 1;
    window.elan = (E3_Addr)elan_main2elan(elan.state, window.memory);
#endif
    /* A stray access then ends the process. It is not an error if that is impossible. */
    (void)mprotect(window.memory, bytes, PROT_NONE);
    window.bytes = bytes;
    return 1;
}

/* The pointer for a network address, with the lock held. `bytes` becomes the number that may be
 * addressed by it. */
static void *remote(uint64_t address, size_t *bytes) {
    uint64_t offset = address - IN_WINDOW;
    uint64_t end = window.bytes;
    const struct range *range;
    char *memory;
    if (address < IN_WINDOW) return (void *)(uintptr_t)address;
    memory = window.memory + offset;
    for (range = window.ranges; range != NULL; range = range->next) {
        if (offset < range->offset) {
            end = range->offset;
            break;
        }
        if (offset < range->offset + range->bytes) {
            memory = range->memory + (offset - range->offset);
            end = range->offset + range->bytes;
            break;
        }
    }
    if (*bytes > end - offset) *bytes = (size_t)(end - offset);
    return memory;
}

static void window_hold(void) { pthread_rwlock_rdlock(&window.lock); }
static void window_release(void) { pthread_rwlock_unlock(&window.lock); }

#else
#define remote(address, bytes) ((void)(bytes), (void *)(uintptr_t)(address))
#define window_hold() ((void)0)
#define window_release() ((void)0)
#endif

/* ---- Start ---- */

/* elan_baseInit. Blocks until all processes have called it. libelan takes the place of the process
 * from its resource manager, and ends the process where there is none; so that is checked before.
 *
 * RMS and Slurm set RMS_NPROCS and RMS_RANK. Deduced from MPICH and Madeleine: ELAN_AUTO and
 * LIBELAN_ECAP0 mean that libelan finds its place by itself; Open MPI gives it a file instead. */
static gasnet_elan_t *shim_start(const gasnet_elan_place_t *place, gasnet_elan_info_t *info, char *why,
                                 size_t why_bytes) {
    static int called;
    static char built_for[] = BUILT_FOR;
    int rails;

    (void)place;
    if (called) {
        explain(why, why_bytes, "libelan attaches to the network only once in a process");
        return NULL;
    }
    if (!(getenv("RMS_NPROCS") && getenv("RMS_RANK")) && !getenv("ELAN_AUTO") && !getenv("LIBELAN_ECAP0") &&
        !getenv("LIBELAN_MACHINES_FILE")) {
        explain(why, why_bytes,
                "RMS_NPROCS and RMS_RANK are not set, nor is ELAN_AUTO: start the job with prun or srun");
        return NULL;
    }
    if (!elan_checkVersion(built_for)) {
        explain(why, why_bytes, "%s is not compatible with libelan %s, for which the shim was built", elan_version(),
                built_for);
        return NULL;
    }
    called = 1;
#if GASNET_ELAN_BASE_FLAGS
    elan.base = elan_baseInit(0);
#else
    elan.base = elan_baseInit();
#endif
    if (elan.base == NULL || elan.base->state == NULL) {
        explain(why, why_bytes, "elan_baseInit failed: no Elan adapter, or no capability to use it");
        return NULL;
    }
    elan.state = elan.base->state;
    elan.throttle = MOST_PUTS;
    if (elan.base->putget_throttle > 0 && elan.base->putget_throttle < MOST_PUTS) {
        elan.throttle = (uint32_t)elan.base->putget_throttle;
    }
    rails = elan_nRails(elan.state);

    memset(info, 0, sizeof *info);
    info->elan = GASNET_ELAN;
    info->vp = (uint32_t)elan.state->vp;
    info->size = (uint32_t)elan.state->nvp;
    info->rails = (uint32_t)rails;
    info->queue_bytes = (uint32_t)elan_queueMaxSlotSize(elan.state);
    info->port_slots = (uint32_t)elan.base->tport_nslots;
    info->small_put = (uint32_t)elan.base->putget_smallputsize;
    info->throttle = elan.throttle;
    info->is_serial = 0; /* 1.4.8 and later */
    info->has_hardware_broadcast = (elan.base->group_flags & ELAN_HWBCAST) != 0;
    snprintf(info->version, sizeof info->version, "%s", elan_version());
#if GASNET_ELAN == 3
    /* Each rail translates with a table of its own. Unknown: how to reach that of another rail
     * than the first. The former conduit's manual also advises against two rails of Elan3. */
    if (rails > 1) {
        explain(why, why_bytes, "the job has %d rails of Elan3: run it with one", rails);
        return NULL;
    }
    if (!window_start(why, why_bytes)) return NULL;
    info->map_bytes = window.bytes;
#else
    info->map_bytes = UINT64_MAX;
#endif
    return &elan;
}

/* Does nothing: libelan detaches when the process exits. elan_fini, where it exists, is
 * collective, and elan_disable_network stops the puts and gets of processes that still use this
 * one's memory. */
static void shim_stop(gasnet_elan_t *self) { (void)self; }

/* ---- Memory ---- */

/* elan_allocMain. Local; does not block. NULL: the pool, of LIBELAN_ALLOC_SIZE bytes, is
 * exhausted. */
static void *shim_alloc(gasnet_elan_t *self, size_t align, size_t bytes) {
    return elan_allocMain(self->state, align, bytes);
}

/* elan_free. Local. */
static void shim_free(gasnet_elan_t *self, void *memory) { elan_free(self->state, memory); }

/* elan_gallocMain. Blocks for all processes. Deduced: it returns NULL in all processes or in none,
 * because all have the same pool, of LIBELAN_GALLOC_SIZE bytes, and the same calls. */
static void *shim_symmetric(gasnet_elan_t *self, size_t align, size_t bytes, uint64_t *address) {
    void *memory = elan_gallocMain(self->base, self->base->allGroup, align, bytes);
    *address = (uint64_t)(uintptr_t)memory;
    return memory;
}

/* elan_gallocFree. Blocks for all processes. */
static void shim_symmetric_free(gasnet_elan_t *self, void *memory) { elan_gallocFree(self->base, memory); }

/* elan_addressable. Local. Elan3: memory that was mapped in several calls is contiguous here, but
 * not for the Elan, which gets the address of its first byte only. */
static int shim_is_addressable(gasnet_elan_t *self, const void *memory, size_t bytes) {
#if GASNET_ELAN == 3
    uintptr_t first = (uintptr_t)memory;
    const struct range *range;
    int inside = 1;
    window_hold();
    for (range = window.ranges; range != NULL; range = range->next) {
        uintptr_t begin = (uintptr_t)range->memory;
        if (first < begin + range->bytes && begin < first + bytes) {
            inside = begin <= first && first + bytes <= begin + range->bytes;
            break;
        }
    }
    window_release();
    if (!inside) return 0;
#endif
    return elan_addressable(self->state, (void *)(uintptr_t)memory, bytes) != 0;
}

/* elan3_clearperm_main, elan3_clearperm_elan, elan3_setperm. Local; waits for puts and gets that
 * other threads are starting. Nothing that uses this memory may be under way. */
static uint64_t shim_map(gasnet_elan_t *self, void *memory, size_t bytes) {
    (void)self;
#if GASNET_ELAN == 3
    struct range *range = malloc(sizeof *range);
    struct range **place;
    uint64_t offset = 0;
    if (range == NULL) return 0;
    pthread_rwlock_wrlock(&window.lock);
    for (place = &window.ranges; *place != NULL && (*place)->offset - offset < bytes; place = &(*place)->next) {
        offset = (*place)->offset + (*place)->bytes;
    }
    if (bytes > window.bytes - offset || !window_set(memory, offset, bytes)) {
        if (bytes <= window.bytes - offset) window_set(window.memory + offset, offset, bytes);
        pthread_rwlock_unlock(&window.lock);
        free(range);
        return 0;
    }
    range->next = *place;
    range->offset = offset;
    range->memory = memory;
    range->bytes = bytes;
    *place = range;
    pthread_rwlock_unlock(&window.lock);
    return IN_WINDOW + offset;
#else
    (void)bytes;
    return (uint64_t)(uintptr_t)memory;
#endif
}

/* The same calls: the reservation takes the place of the memory, which then has no Elan address. */
static void shim_unmap(gasnet_elan_t *self, void *memory, size_t bytes) {
    (void)self;
    (void)bytes;
#if GASNET_ELAN == 3
    struct range **place;
    struct range *range;
    pthread_rwlock_wrlock(&window.lock);
    for (place = &window.ranges; *place != NULL && (*place)->memory != memory; place = &(*place)->next) {}
    range = *place;
    if (range != NULL) {
        *place = range->next;
        elan3_clearperm_main((ELAN3_CTX *)elan.state->ctx, range->memory, (int)range->bytes);
        if (!window_set(window.memory + range->offset, range->offset, range->bytes)) die("elan3_setperm");
        free(range);
    }
    pthread_rwlock_unlock(&window.lock);
#else
    (void)memory;
#endif
}

/* ---- Puts and gets ---- */

/* elan_putgetInit, without memory for vectors. Local. Each channel takes memory of the adapter. */
static gasnet_elan_channel_t *shim_channel(gasnet_elan_t *self) {
    const ELAN_BASE *base = self->base;
    ELAN_PGCTRL *control = elan_putgetInit(self->state, NULL, base->putget_smallputsize, base->putget_stripeputsize,
                                           base->putget_stripegetsize, self->throttle, base->putget_flags);
    if (control == NULL) die("elan_putgetInit");
    return (gasnet_elan_channel_t *)control;
}

/* elan_doput, without an event at the destination, over all rails. Spins while the channel has
 * `throttle` puts under way. Elan3: a put that crosses the border of a range that this process has
 * mapped is made in pieces, and waits for all but the last. */
static gasnet_elan_event_t *shim_put(gasnet_elan_channel_t *channel, const void *from, uint64_t to, size_t bytes,
                                     uint32_t vp) {
    char *source = (char *)(uintptr_t)from;
    ELAN_EVENT *event;
    window_hold();
    for (;;) {
        size_t piece = bytes;
        void *target = remote(to, &piece);
        event = elan_doput((ELAN_PGCTRL *)channel, source, target, 0, piece, vp, ALL_RAILS);
        if (event == NULL) die("elan_doput");
        if (piece == bytes) break;
        elan_wait(event, elan.base->waitType);
        source += piece;
        to += piece;
        bytes -= piece;
    }
    window_release();
    return (gasnet_elan_event_t *)event;
}

/* elan_get, in pieces as above. libelan does not throttle gets. */
static gasnet_elan_event_t *shim_get(gasnet_elan_t *self, uint64_t from, void *to, size_t bytes, uint32_t vp) {
    char *target = to;
    ELAN_EVENT *event;
    window_hold();
    for (;;) {
        size_t piece = bytes;
        void *source = remote(from, &piece);
        event = elan_get(self->state, source, target, piece, vp);
        if (event == NULL) die("elan_get");
        if (piece == bytes) break;
        elan_wait(event, self->base->waitType);
        from += piece;
        target += piece;
        bytes -= piece;
    }
    window_release();
    return (gasnet_elan_event_t *)event;
}

/* elan_poll, without spinning. Not 0: libelan has released the event. */
static int shim_poll(gasnet_elan_t *self, gasnet_elan_event_t *event) {
    (void)self;
    return elan_poll((ELAN_EVENT *)event, 0) != 0;
}

/* elan_wait. Blocks until the network is done; no other process has to do anything. */
static void shim_wait(gasnet_elan_t *self, gasnet_elan_event_t *event) {
    elan_wait((ELAN_EVENT *)event, self->base->waitType);
}

/* ---- Queues ---- */

/* elan_gallocQueue blocks for all processes, elan_mainQueueInit is local: a failure of the second
 * is one of this process alone, which the others would not notice. */
static gasnet_elan_queue_t *shim_queue(gasnet_elan_t *self, size_t slots, size_t bytes) {
    ELAN_QUEUE *queue = elan_gallocQueue(self->base, self->base->allGroup);
    ELAN_MAIN_QUEUE *main_queue;
    if (queue == NULL) return NULL;
    main_queue = elan_mainQueueInit(self->state, queue, (int)slots, (int)bytes, self->base->mqueue_flags);
    if (main_queue == NULL) die("elan_mainQueueInit");
    return (gasnet_elan_queue_t *)main_queue;
}

/* elan_queueReq, to the queue of the same order. Blocks while that is full, without running
 * anything that would empty queues here. Unknown: whether it copies the message or waits for its
 * delivery. */
static void shim_queue_send(gasnet_elan_queue_t *queue, uint32_t vp, const void *message, size_t bytes) {
    elan_queueReq((ELAN_MAIN_QUEUE *)queue, vp, (void *)(uintptr_t)message, bytes);
}

/* elan_queueHaveReq. Does not block. */
static int shim_queue_has(gasnet_elan_queue_t *queue) { return elan_queueHaveReq((ELAN_MAIN_QUEUE *)queue) != 0; }

/* elan_queueWait. Copies a whole slot. Two threads that test and take the same queue would block
 * one of them: shim.h excludes that. */
static void shim_queue_receive(gasnet_elan_queue_t *queue, void *message) {
    elan_queueWait((ELAN_MAIN_QUEUE *)queue, message, elan.base->waitType);
}

/* ---- Ports ---- */

/* elan_gallocQueue blocks for all processes, elan_tportInit is local. */
static gasnet_elan_port_t *shim_port(gasnet_elan_t *self) {
    ELAN_BASE *base = self->base;
    ELAN_QUEUE *queue = elan_gallocQueue(base, base->allGroup);
    ELAN_TPORT *port;
    if (queue == NULL) die("elan_gallocQueue");
    port = elan_tportInit(self->state, queue, base->tport_nslots, base->tport_smallmsg, base->tport_bigmsg,
                          base->tport_stripemsg, base->waitType, base->retryCount, &base->shm_key, base->shm_fifodepth,
                          base->shm_fragsize
#if GASNET_ELAN_PORT_FLAGS
                          ,
                          base->tport_flags
#endif
    );
    if (port == NULL) die("elan_tportInit");
    return (gasnet_elan_port_t *)port;
}

/* elan_tportTxStart. Does not block: the receiver buffers a message that it does not expect. */
static gasnet_elan_event_t *shim_port_send(gasnet_elan_port_t *port, uint32_t vp, uint32_t tag, const void *message,
                                           size_t bytes) {
    ELAN_EVENT *event =
        elan_tportTxStart((ELAN_TPORT *)port, 0, vp, elan.state->vp, (int)tag, (void *)(uintptr_t)message, bytes);
    if (event == NULL) die("elan_tportTxStart");
    return (gasnet_elan_event_t *)event;
}

/* elan_done, then elan_tportTxWait, which returns at once and releases the event: Madeleine's pair.
 * Callers disagree about elan_tportTxDone: the former conduit takes it to release the event,
 * Charm++ and Madeleine call elan_tportTxWait after it. A version without elan_done takes the
 * former conduit's word, which at worst keeps events. */
static int shim_port_sent(gasnet_elan_port_t *port, gasnet_elan_event_t *event) {
    (void)port;
#ifdef GASNET_ELAN_WITHOUT_OPTIONAL
    return elan_tportTxDone((ELAN_EVENT *)event) != 0;
#else
    if (!elan_done((ELAN_EVENT *)event, 0)) return 0;
    elan_tportTxWait((ELAN_EVENT *)event);
    return 1;
#endif
}

/* elan_tportRxStart for this tag and any sender: a mask of 0 matches everything. Deduced: without
 * ELAN_TPORT_RXANY, which callers only use with masks of 0 for the tag also. Unknown: whether
 * ELAN_TPORT_RXBUF goes with a tag; no caller has both. */
static gasnet_elan_event_t *shim_port_offer(gasnet_elan_port_t *port, uint32_t tag, void *buffer, size_t bytes) {
    ELAN_EVENT *event = elan_tportRxStart((ELAN_TPORT *)port, ELAN_TPORT_RXBUF, 0, 0, -1, (int)tag, buffer, bytes);
    if (event == NULL) die("elan_tportRxStart");
    return (gasnet_elan_event_t *)event;
}

/* elan_tportRxDone. Does not block or release the event. */
static int shim_port_arrived(gasnet_elan_port_t *port, gasnet_elan_event_t *event) {
    (void)port;
    return elan_tportRxDone((ELAN_EVENT *)event) != 0;
}

/* elan_tportRxWait. Releases the event. Blocks unless the message has arrived. */
static void *shim_port_receive(gasnet_elan_port_t *port, gasnet_elan_event_t *event, uint32_t *vp, size_t *bytes) {
    int sender = 0;
    void *message = elan_tportRxWait((ELAN_EVENT *)event, &sender, NULL, bytes);
    (void)port;
    *vp = (uint32_t)sender;
    return message;
}

/* elan_tportBufFree. Local. */
static void shim_port_free(gasnet_elan_port_t *port, void *buffer) { elan_tportBufFree((ELAN_TPORT *)port, buffer); }

/* ---- Collectives: each blocks for all processes, and runs in one thread at a time ---- */

/* elan_gsync: a tree of messages. */
static void shim_sync(gasnet_elan_t *self) { elan_gsync(self->base->allGroup); }

/* elan_hgsync: the hardware's, or as elan_gsync where the nodes are not contiguous. */
static void shim_barrier(gasnet_elan_t *self) { elan_hgsync(self->base->allGroup); }

/* elan_hbcast, to the same address in all processes. */
static void shim_broadcast(gasnet_elan_t *self, void *memory, size_t bytes, uint32_t root) {
    elan_hbcast(self->base->allGroup, memory, bytes, root, GLOBAL_DEST);
}

/* ---- Signals ---- */

#ifdef GASNET_ELAN_SLURM
/* slurm_kill_job_step, or slurm_kill_job where the step is unknown. Asks Slurm's daemons. */
static int signal_by_slurm(int signal, char *why, size_t why_bytes) {
    const char *job = getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : getenv("SLURM_JOBID");
    const char *step = getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : getenv("SLURM_STEPID");
    int status;
    if (job == NULL) {
        explain(why, why_bytes, "SLURM_JOB_ID is not set");
        return -1;
    }
    if (step != NULL) {
        status =
            slurm_kill_job_step((uint32_t)strtoul(job, NULL, 10), (uint32_t)strtoul(step, NULL, 10), (uint16_t)signal);
    } else {
        status = slurm_kill_job((uint32_t)strtoul(job, NULL, 10), (uint16_t)signal, 0);
    }
    if (status != 0) {
        explain(why, why_bytes, "Slurm does not signal job %s: %s", job, slurm_strerror(slurm_get_errno()));
    }
    return status;
}
#endif

#ifdef GASNET_ELAN_RMS
/* rms_killResource, which asks RMS's daemons and fails now and then without a cause. If it fails
 * twice, rms_prgsignal: that is a call to the kernel of this node. Deduced from Slurm, which makes
 * a program description in each node: the signal does not leave the node, so that this is still a
 * failure. */
static int signal_by_rms(int signal, char *why, size_t why_bytes) {
    char *resource = getenv("RMS_RESOURCEID");
    int id = resource ? rms_resourceId(resource) : -1;
    int status = -1;
    int program;
    if (resource == NULL) {
        explain(why, why_bytes, "RMS_RESOURCEID is not set");
    } else if (id < 0) {
        explain(why, why_bytes, "RMS does not know the resource %s: %s", resource, rms_errorString(id));
    } else {
        status = rms_killResource(id, signal);
        if (status != 0) status = rms_killResource(id, signal);
        if (status == 0) return 0;
        explain(why, why_bytes, "RMS does not signal the resource %s: %s", resource, rms_errorString(status));
    }
    if (rms_getprgid(getpid(), &program) == 0) (void)rms_prgsignal(program, signal);
    return -1;
}
#endif

/* Needs no attachment. May block on daemons. Slurm comes first: it sets the variables of RMS as
 * well. */
static int shim_signal_job(int signal, char *why, size_t why_bytes) {
    int status = -1;
    explain(why, why_bytes, "the shim was built without GASNET_ELAN_RMS and GASNET_ELAN_SLURM");
    (void)signal;
#ifdef GASNET_ELAN_SLURM
    status = signal_by_slurm(signal, why, why_bytes);
#endif
#ifdef GASNET_ELAN_RMS
    if (status != 0) status = signal_by_rms(signal, why, why_bytes);
#endif
    return status;
}

const gasnet_elan_shim_t *gasnet_elan_shim(void) {
    static const gasnet_elan_shim_t table = {
        .version = GASNET_ELAN_SHIM_VERSION,
        .start = shim_start,
        .stop = shim_stop,
        .alloc = shim_alloc,
        .free = shim_free,
        .symmetric = shim_symmetric,
        .symmetric_free = shim_symmetric_free,
        .is_addressable = shim_is_addressable,
        .map = shim_map,
        .unmap = shim_unmap,
        .channel = shim_channel,
        .put = shim_put,
        .get = shim_get,
        .poll = shim_poll,
        .wait = shim_wait,
        .queue = shim_queue,
        .queue_send = shim_queue_send,
        .queue_has = shim_queue_has,
        .queue_receive = shim_queue_receive,
        .port = shim_port,
        .port_send = shim_port_send,
        .port_sent = shim_port_sent,
        .port_offer = shim_port_offer,
        .port_arrived = shim_port_arrived,
        .port_receive = shim_port_receive,
        .port_free = shim_port_free,
        .sync = shim_sync,
        .barrier = shim_barrier,
        .broadcast = shim_broadcast,
        .signal_job = shim_signal_job,
    };
    return &table;
}
