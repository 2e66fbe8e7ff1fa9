/* What conduit-elan asks of Quadrics' libelan (QsNet: Elan3, QsNetII: Elan4), as an interface of
 * its own: no header of libelan is public, so nobody can declare its functions and structures from
 * afar. A site implements this interface over the vendor's library, in libgasnet_elan_shim.so,
 * which the conduit opens at run time. The implementation for tests is emulators/elan.
 *
 * The library exports one function, gasnet_elan_shim, which returns a table of the others.
 *
 * Processes are named by their virtual process numbers ("vp"), from 0 to size - 1.
 *
 * Network addresses are what processes give each other to put to and get from. That of memory is
 * its virtual address in the process that owns it (Elan4), or its address in the mapping of the
 * Elan (Elan3). Symmetric memory has the same one in all processes.
 *
 * Threads: unless `is_serial`, several threads may call any functions at a time, except that calls
 * with the same queue's `receive`, or with the same event, are made one after the other. If
 * `is_serial`, all calls are.
 *
 * Blocking: `start`, `symmetric`, `symmetric_free`, `queue`, `port`, `wait`, `sync`, `barrier` and
 * `broadcast` wait for other processes. `put` waits while its channel has as many puts under way as
 * `throttle` says, and `queue_send` while the queue of the receiver is full; the conduit counts, so
 * that they need not. On Elan3, a `put` or `get` across a border between ranges that this process
 * has mapped is made in pieces, and waits for the network, not for a process, to do all but the
 * last. `signal_job` may wait for the resource manager. Nothing else waits.
 *
 * Errors: where nothing else is written, an error ends the process with a message, as in libelan.
 *
 * "libelan:" names the counterparts, of versions 1.4.8 and later (1.8 for Elan4). */
#ifndef GASNET_ELAN_SHIM_H
#define GASNET_ELAN_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the table and the structures. A library with another one is not used. */
#define GASNET_ELAN_SHIM_VERSION 1

/* An attachment to the network. libelan has one in a process; an emulator may have several. */
typedef struct gasnet_elan gasnet_elan_t;
/* A put, a get, or a message of a port under way. libelan: ELAN_EVENT */
typedef struct gasnet_elan_event gasnet_elan_event_t;
/* Puts, of which a limited number are under way at a time. libelan: ELAN_PGCTRL */
typedef struct gasnet_elan_channel gasnet_elan_channel_t;
/* Short messages, of which each process receives those sent to its queue of the same order.
 * libelan: ELAN_MAIN_QUEUE */
typedef struct gasnet_elan_queue gasnet_elan_queue_t;
/* Long messages with tags. libelan: ELAN_TPORT */
typedef struct gasnet_elan_port gasnet_elan_port_t;

/* Where the process thinks that it is. A resource manager (RMS, Slurm) knows better: then the
 * shim ignores this, and only an emulator uses it. */
typedef struct {
    /* The same in all processes of a job, and in no other job. */
    uint64_t job;
    uint32_t rank;
    /* 0: unknown. */
    uint32_t size;
} gasnet_elan_place_t;

typedef struct {
    /* 3 or 4. */
    uint32_t elan;
    /* This process, and their number. libelan: state->vp, state->nvp */
    uint32_t vp;
    uint32_t size;
    uint32_t rails;
    /* Most bytes of a message in a queue. libelan: elan_queueMaxSlotSize; 320 and 2048 */
    uint32_t queue_bytes;
    /* Messages that a process should have in a port at a time. libelan: base->tport_nslots */
    uint32_t port_slots;
    /* Puts of at most this many bytes read their source before `put` returns, whatever memory that
     * is. libelan: base->putget_smallputsize */
    uint32_t small_put;
    /* Puts under way in a channel, at most 64. libelan: base->putget_throttle */
    uint32_t throttle;
    /* Only one thread may be inside the library at a time (libelan before 1.4). */
    uint32_t is_serial;
    /* `barrier` and `broadcast` are the hardware's; if not, libelan does the same by messages.
     * libelan: ELAN_HWBCAST */
    uint32_t has_hardware_broadcast;
    /* Memory that `map` makes accessible, in total; UINT64_MAX: any. */
    uint64_t map_bytes;
    /* For people: "libelan 1.8.14". */
    char version[64];
} gasnet_elan_info_t;

typedef struct {
    uint32_t version; /* GASNET_ELAN_SHIM_VERSION */

    /* Attaches this process to the network. Collective. Null: it cannot, and `why` says so in one
     * line without a full stop. libelan: elan_baseInit */
    gasnet_elan_t *(*start)(const gasnet_elan_place_t *place, gasnet_elan_info_t *info, char *why, size_t why_bytes);
    /* Ends it. Not collective: others may be inside. libelan needs nothing. */
    void (*stop)(gasnet_elan_t *);

    /* Memory that the network reads and writes, from a pool. Null: the pool is exhausted.
     * libelan: elan_allocMain, elan_free */
    void *(*alloc)(gasnet_elan_t *, size_t align, size_t bytes);
    void (*free)(gasnet_elan_t *, void *memory);
    /* The same from all processes, with its network address. Collective, in the same order
     * everywhere. Null, in all processes: the pool is exhausted. libelan: elan_gallocMain */
    void *(*symmetric)(gasnet_elan_t *, size_t align, size_t bytes, uint64_t *address);
    /* Collective. libelan: elan_gallocFree */
    void (*symmetric_free)(gasnet_elan_t *, void *memory);
    /* Whether the network reads and writes this memory of the process. Elan4: always.
     * libelan: elan_addressable */
    int (*is_addressable)(gasnet_elan_t *, const void *memory, size_t bytes);
    /* Makes whole pages accessible to all processes. Returns their network address; 0: no room.
     * Elan4: does nothing. Elan3, libelan: elan3_setperm, elan3_clearperm */
    uint64_t (*map)(gasnet_elan_t *, void *memory, size_t bytes);
    void (*unmap)(gasnet_elan_t *, void *memory, size_t bytes);

    /* libelan: elan_putgetInit */
    gasnet_elan_channel_t *(*channel)(gasnet_elan_t *);
    /* Puts `bytes`, at least one, of own memory, which is addressable or small. The event: the
     * bytes are at their destination, and the source may be written. Puts overtake each other.
     * libelan: elan_doput, on all rails */
    gasnet_elan_event_t *(*put)(gasnet_elan_channel_t *, const void *from, uint64_t to, size_t bytes, uint32_t vp);
    /* Gets `bytes`, at least one, into own memory, which is addressable. libelan: elan_get */
    gasnet_elan_event_t *(*get)(gasnet_elan_t *, uint64_t from, void *to, size_t bytes, uint32_t vp);
    /* Whether a put or get is complete. Its event is gone then. libelan: elan_poll */
    int (*poll)(gasnet_elan_t *, gasnet_elan_event_t *);
    /* Waits for a put or get. libelan: elan_wait */
    void (*wait)(gasnet_elan_t *, gasnet_elan_event_t *);

    /* A queue of `slots` messages of at most `bytes` bytes. Collective, in the same
     * order everywhere. Null: no memory. libelan: elan_gallocQueue, elan_mainQueueInit */
    gasnet_elan_queue_t *(*queue)(gasnet_elan_t *, size_t slots, size_t bytes);
    /* Sends a message. The buffer may be written at return. libelan: elan_queueReq */
    void (*queue_send)(gasnet_elan_queue_t *, uint32_t vp, const void *message, size_t bytes);
    /* Whether there is a message. libelan: elan_queueHaveReq */
    int (*queue_has)(gasnet_elan_queue_t *);
    /* Takes the message that there is: as many bytes as the queue's messages have at most are
     * written. libelan: elan_queueWait */
    void (*queue_receive)(gasnet_elan_queue_t *, void *message);

    /* Collective, in the same order everywhere. libelan: elan_gallocQueue, elan_tportInit */
    gasnet_elan_port_t *(*port)(gasnet_elan_t *);
    /* Sends a message from memory of `alloc`, which may be written when `port_sent` says so. A
     * receiver without a buffer for it keeps it. libelan: elan_tportTxStart */
    gasnet_elan_event_t *(*port_send)(gasnet_elan_port_t *, uint32_t vp, uint32_t tag, const void *message,
                                      size_t bytes);
    /* Whether it has been sent. Its event is gone then. libelan: elan_tportTxDone */
    int (*port_sent)(gasnet_elan_port_t *, gasnet_elan_event_t *);
    /* Offers memory of `alloc` to a message with this tag, of any process. Those of a tag arrive in
     * the order of these calls. libelan: elan_tportRxStart with ELAN_TPORT_RXBUF */
    gasnet_elan_event_t *(*port_offer)(gasnet_elan_port_t *, uint32_t tag, void *buffer, size_t bytes);
    /* Whether a message has arrived for it. The event stays. libelan: elan_tportRxDone */
    int (*port_arrived)(gasnet_elan_port_t *, gasnet_elan_event_t *);
    /* The message that has arrived: in the buffer, or in one of the library's, if it had come
     * before the buffer was offered. The event is gone. libelan: elan_tportRxWait */
    void *(*port_receive)(gasnet_elan_port_t *, gasnet_elan_event_t *, uint32_t *vp, size_t *bytes);
    /* Gives the library's buffer back. libelan: elan_tportBufFree */
    void (*port_free)(gasnet_elan_port_t *, void *buffer);

    /* A barrier by messages, and the hardware's. libelan: elan_gsync, elan_hgsync */
    void (*sync)(gasnet_elan_t *);
    void (*barrier)(gasnet_elan_t *);
    /* Symmetric memory of process `root` to that of all others. Nobody may be still reading what
     * was there. libelan: elan_hbcast */
    void (*broadcast)(gasnet_elan_t *, void *memory, size_t bytes, uint32_t root);

    /* Sends a signal to all processes of the job, by way of the resource manager. Not 0: it could
     * not, and `why` says so. libelan: none; rms_killResource, rms_prgsignal or slurm_kill_job */
    int (*signal_job)(int signal, char *why, size_t why_bytes);
} gasnet_elan_shim_t;

/* The table, which is constant. */
const gasnet_elan_shim_t *gasnet_elan_shim(void);

#ifdef __cplusplus
}
#endif

#endif
