/* Stand-in for libelan's <elan/elan.h>: see ../README.md. Declarations only; the order of fields
 * and the values of constants are arbitrary. */
#ifndef GASNET_STANDIN_ELAN_ELAN_H
#define GASNET_STANDIN_ELAN_ELAN_H

#include "elan/version.h"

/* C1 (AR): guards of two headers that this one includes. AR detects their functions by them. */
#define _ELAN_PUTGET_H
#define _ELAN_LOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque: C2. The tag: C1 (OB). An event of any kind has functions of its own that poll, wait and
 * free (AR), so that elan_poll and elan_wait take those of ports too. */
typedef struct ELAN_EVENT ELAN_EVENT;
typedef struct standin_elan_pgctrl ELAN_PGCTRL;
typedef struct standin_elan_queue ELAN_QUEUE;
typedef struct standin_elan_main_queue ELAN_MAIN_QUEUE;
typedef struct standin_elan_queue_tx ELAN_QUEUE_TX;
typedef struct standin_elan_queue_rx ELAN_QUEUE_RX;
typedef struct standin_elan_tport ELAN_TPORT;
typedef struct standin_elan_rail ELAN_RAIL;
typedef struct standin_elan_capability ELAN_CAPABILITY;

/* C2 (MD, NE, OB): passed by value, also as plain 0. The type: D */
typedef unsigned int ELAN_FLAGS;
/* The name: C2 (AR, LA). 32 bits (Elan3), 64 bits (Elan4): I. An integer: D, of casts (AR) */
#if defined(GASNET_ELAN) && GASNET_ELAN == 3
typedef uint32_t ELAN_ADDR;
#else
typedef uint64_t ELAN_ADDR;
#endif
/* C1 (GE) */
typedef int (*ELAN_PROGFN)(void *handle, unsigned int *ready);
/* C2 (OB, CM): the name in CM, the parameters by the functions that both pass: D */
typedef void (*ELAN_REDUCER)(void *vin, void *vinout, int *count, void *handle);

/* C2, all fields here. Their types: D */
typedef struct {
    u_int vp;
    u_int nvp;
    /* GE, OP. An ELAN3_CTX or ELAN4_CTX, of the first rail: D */
    void *ctx;
    char *version;
    ELAN_CAPABILITY *cap;
    /* AR, as state->rail[n] */
    ELAN_RAIL **rail;
    int attached;
    int debugFlags;
    u_int localId;
    u_int *localIds;
    u_int nLocalIds;
    u_int maxLocalIds;
    /* GE */
    void *alloc_base;
    size_t alloc_size;
    void *allocElan_base;
    size_t allocElan_size;
} ELAN_STATE;

/* C1 (GE). The types: D */
typedef struct {
    u_int self;
    u_int size;
} ELAN_GROUP;

/* state, allGroup, waitType, retryCount, tport_*, shm_key, shm_fifodepth, shm_fragsize,
 * group_flags: C2; capabilities: C1 (NE); the others: C1 (GE). The types: D */
typedef struct {
    ELAN_STATE *state;
    ELAN_GROUP *allGroup;
    long waitType;
    int retryCount;
    int dmaType;
    int init;
    ELAN_FLAGS flags;
    u_int capabilities;
    u_int tport_nslots;
    size_t tport_smallmsg;
    size_t tport_bigmsg;
    size_t tport_stripemsg;
    size_t tport_fragsize;
    ELAN_FLAGS tport_flags;
    u_int tport_nqxd;
    int shm_key;
    u_int shm_fifodepth;
    size_t shm_fragsize;
    size_t shm_bigmsg;
    ELAN_FLAGS shm_flags;
    ELAN_FLAGS mqueue_flags;
    u_int mqueue_slotsize;
    u_int mqueue_nslots;
    ELAN_FLAGS putget_flags;
    size_t putget_smallputsize;
    size_t putget_stripeputsize;
    size_t putget_stripegetsize;
    u_int putget_throttle;
    ELAN_FLAGS lock_flags;
    ELAN_FLAGS group_flags;
    size_t group_rbufsize;
    size_t group_cbufsize;
    u_int group_maxsegs;
    u_int group_branch;
    ELAN_FLAGS galloc_flags;
    size_t galloc_size;
    size_t gallocElan_size;
} ELAN_BASE;

/* The library's own handle on what elan_baseInit returns. C2 (AR, NE). CM defines a variable with
 * this name and assigns the result, so that the library's must be a common symbol. */
extern ELAN_BASE *elan_base;

/* C2, reachable through this header alone (OB, CM); values unknown. Special values of a parameter
 * that otherwise counts spins: C2. Its type, long: C2 (OP, AR) */
#define ELAN_POLL_EVENT (-1L)
#define ELAN_WAIT_EVENT (-2L)

/* C2 (OB, GE); value unknown */
#define ELAN_RAIL_ALL (-1)
/* The value: C1 (GE) */
#define LIBELAN_QUEUEREUSEBUF 0x10000
/* C1 (GE); value unknown. Versions without it take 1. */
#define ELAN_GLOBAL_DEST 0x1
/* C1 (GE); values unknown */
#define ELAN_HWBCAST 0x2
#define ELAN_MULTI_CONTEXT 0x4
#define ELAN_SHM_ENABLE 0x8
/* C2; values unknown */
#define ELAN_TPORT_RXANY 0x1
#define ELAN_TPORT_RXBUF 0x2
#define ELAN_TPORT_RXPROBE 0x4
#define ELAN_TPORT_TXSYNC 0x8
/* C1 (OB); values unknown */
#define ELAN_TPORT_SHM_DISABLE 0x100
#define ELAN_TPORT_USERCOPY_DISABLE 0x200
/* C2 (OB, CM); values unknown */
#define ELAN_REDUCE_COMMUTE 0x10
#define ELAN_RESULT_ALL 0x20
/* C1 (AR); values unknown */
#define ELAN_PGVINIT 0x40
#define ELAN_QUEUE_ALIGN 64
#define ELAN_LOCK_ALIGN 64
#define ELAN_LOCK_NORMAL 0x80
#define ELAN_LOCK_BUSY 0x400
/* C1 (NE); values unknown. A bit of `capabilities`, and a flag of elan_fini */
#define LIBELAN_HAVE_FINI 0x800
#define LIBELAN_FINI_GROUP 0x1000
/* C1 (LA); value unknown */
#define ELAN_BAD_ADDR ((ELAN_ADDR)-1)

/* C2. The flags from 1.4.10 on: GE; AR passes them from 1.4.6 on, CM from 1.4.1 on */
#if QSNETLIBS_VERSION_CODE >= QSNETLIBS_VERSION(1, 4, 10)
ELAN_BASE *elan_baseInit(ELAN_FLAGS flags);
#else
ELAN_BASE *elan_baseInit(void);
#endif
/* C1 (NE). The return type: I, no caller uses it */
void elan_fini(ELAN_STATE *state, ELAN_GROUP *group, ELAN_FLAGS flags);
/* C2 (GE, AR) */
char *elan_version(void);
int elan_checkVersion(char *version);
/* C1 (GE); 1.4.8 */
int elan_nRails(ELAN_STATE *state);
/* C2 (GE, CM) */
uint64_t elan_clock(ELAN_STATE *state);
/* C2 (GE, OB, NE) */
int elan_queueMaxSlotSize(ELAN_STATE *state);
/* C1 (GE) */
void elan_addProgressFn(ELAN_STATE *state, ELAN_PROGFN fn, void *handle);
#define ELAN_VPISLOCAL(state, vp) ((void)(state), (void)(vp), 0)
/* C2 (OB, NE) */
void elan_enable_network(ELAN_STATE *state);
void elan_disable_network(ELAN_STATE *state);
/* C1 (CM) */
void elan_deviceCheck(ELAN_STATE *state);
/* C2 (MD, NE) */
int elan_generateCapability(char *text);

/* C2. Sizes are int before 1.4.8: GE */
void *elan_allocMain(ELAN_STATE *state, size_t align, size_t size);
void elan_free(ELAN_STATE *state, void *memory);
void *elan_gallocMain(ELAN_BASE *base, ELAN_GROUP *group, size_t align, size_t size);
void elan_gallocFree(ELAN_BASE *base, void *memory);
/* C2 (GE, AR). The return type: D, of assignments to void * and to other pointers without a cast */
void *elan_gallocElan(ELAN_BASE *base, ELAN_GROUP *group, size_t align, size_t size);
/* C2 (GE, AR, OB, CM, MD) */
ELAN_QUEUE *elan_gallocQueue(ELAN_BASE *base, ELAN_GROUP *group);
/* C2 (OB, NE) */
ELAN_QUEUE *elan_allocQueue(ELAN_STATE *state);
/* C1 (GE) */
int elan_addressable(ELAN_STATE *state, const void *memory, size_t size);
/* C2 (GE, CM) */
ELAN_ADDR elan_main2elan(ELAN_STATE *state, void *memory);
/* C1 (AR), not 0: done */
int elan_addMapping(ELAN_STATE *state, void *memory, size_t size);

/* C2 */
ELAN_EVENT *elan_put(ELAN_STATE *state, void *from, void *to, size_t size, u_int vp);
ELAN_EVENT *elan_get(ELAN_STATE *state, void *from, void *to, size_t size, u_int vp);
/* C2 (GE, AR) */
ELAN_PGCTRL *elan_putgetInit(ELAN_STATE *state, void *qMem, size_t smallputsize, size_t splitput, size_t splitget,
                             u_int throttle, ELAN_FLAGS flags);
/* C2 (GE, AR). destEvent: an ELAN_ADDR in a cast of AR, 0 or NULL elsewhere */
ELAN_EVENT *elan_doput(ELAN_PGCTRL *pgctrl, void *from, void *to, ELAN_ADDR destEvent, size_t size, u_int vp, int rail);
/* C1 (AR). The types: D */
ELAN_EVENT *elan_putv(ELAN_PGCTRL *pgctrl, void *from[], void *to[], size_t size, u_int count, u_int vp);
ELAN_EVENT *elan_getv(ELAN_PGCTRL *pgctrl, void *from[], void *to[], size_t size, u_int count, u_int vp);
/* C2 (GE, AR) */
int elan_pgvGlobalMemSize(ELAN_STATE *state);
/* C2 (AR, CM) */
void elan_putWaitAll(ELAN_STATE *state, long how);
void elan_getWaitAll(ELAN_STATE *state, long how);

/* C2 */
void elan_wait(ELAN_EVENT *event, long how);
int elan_poll(ELAN_EVENT *event, long how);
/* C2 (GE, OB, MD) */
int elan_done(ELAN_EVENT *event, long how);

/* C2 (GE, AR). The flags from 1.4.8 on: GE; AR passes them from 1.4.6 on */
ELAN_MAIN_QUEUE *elan_mainQueueInit(ELAN_STATE *state, ELAN_QUEUE *queue, int nslots, int slotsize, ELAN_FLAGS flags);
void elan_queueReq(ELAN_MAIN_QUEUE *queue, u_int vp, void *message, size_t size);
void elan_queueWait(ELAN_MAIN_QUEUE *queue, void *message, long how);
/* C1 (GE) */
int elan_queueHaveReq(ELAN_MAIN_QUEUE *queue);
/* C2 (GE, OB, NE, AR) */
ELAN_QUEUE_TX *elan_queueTxInit(ELAN_STATE *state, ELAN_QUEUE *queue, int rail, ELAN_FLAGS flags);
ELAN_EVENT *elan_queueTx(ELAN_QUEUE_TX *queue, u_int vp, void *message, size_t size, int rail);
ELAN_QUEUE_RX *elan_queueRxInit(ELAN_STATE *state, ELAN_QUEUE *queue, int nslots, int slotsize, int rail,
                                ELAN_FLAGS flags);
int elan_queueRxPoll(ELAN_QUEUE_RX *queue, long how);
void *elan_queueRxWait(ELAN_QUEUE_RX *queue, void *message, long how);
/* C1 (OB). The return type: I, no caller uses it */
void elan_queueRxComplete(ELAN_QUEUE_RX *queue);

/* C2 (GE, OB, MD, CM). The flags from 1.4.8 on: GE; CM passes them from 1.4.12 on only. The type of
 * `key`: unknown, callers pass &base->shm_key */
ELAN_TPORT *elan_tportInit(ELAN_STATE *state, ELAN_QUEUE *queue, u_int nslots, size_t smallmsg, size_t bigmsg,
                           size_t stripemsg, long waitType, int retryCount, int *key, u_int fifodepth, size_t fragsize,
                           ELAN_FLAGS flags);
/* C2 (GE, OB, MD, CM) */
ELAN_EVENT *elan_tportTxStart(ELAN_TPORT *port, ELAN_FLAGS flags, u_int vp, u_int sender, int tag, void *message,
                              size_t size);
int elan_tportTxDone(ELAN_EVENT *event);
void elan_tportTxWait(ELAN_EVENT *event);
ELAN_EVENT *elan_tportRxStart(ELAN_TPORT *port, ELAN_FLAGS flags, u_int senderMask, u_int senderSel, int tagMask,
                              int tagSel, void *buffer, size_t size);
int elan_tportRxDone(ELAN_EVENT *event);
void *elan_tportRxWait(ELAN_EVENT *event, int *sender, int *tag, size_t *size);
/* C2 (GE, OB) */
void elan_tportBufFree(ELAN_TPORT *port, void *buffer);

/* C1 (AR): a multiple of `long` in size. The types: D */
typedef struct {
    int lp_master;
    int lp_type;
} ELAN_LOCK;
/* C1 (AR). The return types: I, no caller uses them */
void elan_lockInit(ELAN_STATE *state, ELAN_LOCK *lock, int type);
void elan_lockLock(ELAN_STATE *state, ELAN_LOCK *lock, int how);
void elan_lockUnLock(ELAN_STATE *state, ELAN_LOCK *lock);

/* C2 (GE, AR, OB, CM) */
void elan_gsync(ELAN_GROUP *group);
/* C1 (GE) */
void elan_hgsync(ELAN_GROUP *group);
void elan_hbcast(ELAN_GROUP *group, void *memory, size_t size, u_int root, int global);
/* C1 (CM) */
void elan_bcast(ELAN_GROUP *group, void *memory, size_t size, u_int root, int global);
/* C2 (OB, CM). The types: D */
void elan_reduce(ELAN_GROUP *group, void *from, void *to, size_t size, int count, ELAN_REDUCER fn, void *handle,
                 int unknown1, int unknown2, ELAN_FLAGS flags, u_int root);

#ifdef __cplusplus
}
#endif

#endif
