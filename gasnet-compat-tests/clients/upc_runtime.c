// A runtime of UPC in small: what the public sources of Berkeley UPC's runtime take from GASNet-1
// and the tools, and nothing else. Shared arrays by puts and gets with and without handles, locks
// and a shared heap by Active Messages, a barrier with names, and the strings that its compiler
// driver compares. clients/names and clients/values have further names and all values.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h>

// Configuration, as its preprocessor lines read it.
#if GASNET_SEQ + 0 && defined(GASNET_PAR)
#error "two thread modes"
#endif
#if !defined(PLATFORM_ARCH_64) && !defined(PLATFORM_ARCH_32)
#error "size of pointers"
#endif
#if PLATFORM_OS_CYGWIN || PLATFORM_COMPILER_MTA || PLATFORM_COMPILER_CRAY || GASNETI_ARCH_ALTIX
#error "another machine"
#endif
#if SIZEOF_GASNET_REGISTER_VALUE_T != 8
#error "width of values"
#endif
#if GASNET_CONDUIT_SMP && GASNET_CONDUIT_IBV
#error "two conduits"
#endif
#ifndef GASNET_CONFIG_STRING
#error "GASNET_CONFIG_STRING"
#endif

// Its driver links objects whose strings agree.
GASNETT_IDENT(upc_config_ident, "$GASNetConfig: (upc_runtime.o) " GASNET_CONFIG_STRING " $");

enum { LOCK = 140, LOCK_DONE, UNLOCK, ALLOCATE, ALLOCATED, DEPOSIT, DEPOSITED };
enum { CELLS = 64, HEAP = 4096, ROUNDS = 20 };

static gasnet_seginfo_t *segments;
static gasnet_hsl_t lock_guard = GASNET_HSL_INITIALIZER;
static gasnett_mutex_t heap_guard = GASNETT_MUTEX_INITIALIZER;
static gasnett_atomic64_t heap_end;
static int is_locked; // on rank 0
static volatile int answer, arrived;
static volatile gasnet_handlerarg_t place;
GASNETT_THREADKEY_DECLARE(upc_thread);
GASNETT_THREADKEY_DEFINE(upc_thread);

GASNETT_INLINE(cell)
uint64_t *cell(gasnet_node_t node, size_t index) { return (uint64_t *)segments[node].addr + index; }

GASNETT_DEPRECATED extern int old_entry(void);
GASNETT_WARN_UNUSED_RESULT static int checked(int code) { return code; }

// Locks: the owner of a lock grants it in the handler, or refuses it.
static void on_lock(gasnet_token_t token, gasnet_handlerarg_t number) {
    int is_free;
    gasnet_hsl_lock(&lock_guard);
    is_free = !is_locked;
    is_locked = 1;
    gasnet_hsl_unlock(&lock_guard);
    OK(gasnet_AMReplyShort1(token, LOCK_DONE, is_free ? number : -number));
}
static void on_lock_done(gasnet_token_t token, gasnet_handlerarg_t number) {
    (void)token;
    gasnett_local_wmb();
    answer = number;
}
static void on_unlock(gasnet_token_t token, gasnet_handlerarg_t number) {
    (void)token;
    (void)number;
    gasnet_hsl_lock(&lock_guard);
    is_locked = 0;
    gasnet_hsl_unlock(&lock_guard);
}
static void take_lock(void) {
    gasnet_handlerarg_t number = (gasnet_handlerarg_t)me + 1;
    do {
        answer = 0;
        OK(gasnet_AMRequestShort1(0, LOCK, number));
        GASNET_BLOCKUNTIL(answer != 0);
        gasnett_local_rmb();
        if_pf (answer != number) gasnett_sched_yield();
    } while (answer != number);
}

// The shared heap: a rank's memory is given away in its handler.
static void on_allocate(gasnet_token_t token, void *name, size_t bytes, gasnet_handlerarg_t wanted) {
    int64_t before;
    CHECK(bytes == 8 && !memcmp(name, "upc_heap", 8));
    gasnett_mutex_lock(&heap_guard);
    before = (int64_t)gasnett_atomic64_read(&heap_end, 0);
    gasnett_atomic64_set(&heap_end, (uint64_t)(before + wanted), 0);
    gasnett_mutex_unlock(&heap_guard);
    OK(gasnet_AMReplyMedium1(token, ALLOCATED, name, bytes, (gasnet_handlerarg_t)before));
}
static void on_allocated(gasnet_token_t token, void *name, size_t bytes, gasnet_handlerarg_t before) {
    (void)token;
    CHECK(bytes == 8 && !memcmp(name, "upc_heap", 8));
    place = before;
    answer = 1;
}

// Bulk data by Longs: the answer has as many bytes.
static void on_deposit(gasnet_token_t token, void *data, size_t bytes, gasnet_handlerarg_t at) {
    gasnet_node_t from;
    OK(gasnet_AMGetMsgSource(token, &from));
    CHECK(gasnett_checksum(data, (int)bytes) != 0);
    OK(gasnet_AMReplyLong1(token, DEPOSITED, data, bytes, cell(from, (size_t)at), at));
}
static void on_deposited(gasnet_token_t token, void *data, size_t bytes, gasnet_handlerarg_t at) {
    (void)token;
    CHECK(data == cell(me, (size_t)at) && bytes > 0);
    arrived++;
}

static gasnet_handlerentry_t handlers[] = {
    {LOCK, (void (*)())on_lock},           {LOCK_DONE, (void (*)())on_lock_done}, {UNLOCK, (void (*)())on_unlock},
    {ALLOCATE, (void (*)())on_allocate},   {ALLOCATED, (void (*)())on_allocated}, {DEPOSIT, (void (*)())on_deposit},
    {DEPOSITED, (void (*)())on_deposited},
};

static void all_arrive(int name) {
    gasnet_barrier_notify(name, 0);
    OK(gasnet_barrier_wait(name, 0));
}

// Relaxed accesses complete at the next fence.
static void relaxed_accesses(gasnet_node_t peer) {
    GASNET_BEGIN_FUNCTION();
    uint64_t out[CELLS], in[CELLS];
    gasnet_handle_t handles[3];
    for (size_t i = 0; i < CELLS; i++) out[i] = 1000 * me + i;
    for (size_t i = 0; i < CELLS; i++) gasnet_put_nbi(peer, cell(peer, i), &out[i], sizeof out[i]);
    while (gasnet_try_syncnbi_puts() != GASNET_OK) {}
    gasnet_wait_syncnbi_puts();
    all_arrive(7);
    for (size_t i = 0; i < CELLS; i++) gasnet_get_nbi(&in[i], peer, cell(peer, i), sizeof in[i]);
    while (gasnet_try_syncnbi_gets() != GASNET_OK) {}
    gasnet_wait_syncnbi_gets();
    CHECK(!memcmp(in, out, sizeof in));
    memset(in, 0, sizeof in);
    gasnet_begin_nbi_accessregion();
    for (size_t i = 0; i < CELLS; i++) gasnet_get_nbi(&in[i], peer, cell(peer, i), sizeof in[i]);
    handles[0] = gasnet_end_nbi_accessregion();
    handles[1] = GASNET_INVALID_HANDLE;
    handles[2] = gasnet_put_nb(peer, cell(peer, CELLS), out, sizeof out[0]);
    if (gasnet_try_syncnb_some(handles, 3) != GASNET_OK) gasnet_wait_syncnb_some(handles, 3);
    gasnet_wait_syncnb_all(handles, 3);
    CHECK(!memcmp(in, out, sizeof in));
    while (gasnet_try_syncnbi_all() != GASNET_OK) {}
    gasnet_wait_syncnbi_all();
    gasnet_put_val(peer, cell(peer, CELLS), (gasnet_register_value_t)(me + 5), sizeof(uint64_t));
    CHECK(gasnet_get_val(peer, cell(peer, CELLS), sizeof(uint64_t)) == me + 5);
    all_arrive(8);
}

// A counter on rank 0 that every rank increments under the lock.
static void locked_counter(void) {
    for (int i = 0; i < ROUNDS; i++) {
        take_lock();
        gasnet_register_value_t before = gasnet_get_val(0, cell(0, 0), 8);
        gasnett_sched_yield(); /* others get their chance to break it */
        gasnet_put_val(0, cell(0, 0), before + 1, 8);
        OK(gasnet_AMRequestShort1(0, UNLOCK, 0));
    }
    all_arrive(9);
    CHECK(gasnet_get_val(0, cell(0, 0), 8) == (gasnet_register_value_t)ROUNDS * np);
    all_arrive(10);
}

static void shared_heap(gasnet_node_t peer) {
    gasnet_handlerarg_t mine, *all = (gasnet_handlerarg_t *)malloc(np * sizeof *all);
    answer = 0;
    OK(gasnet_AMRequestMedium1(0, ALLOCATE, (void *)(uintptr_t) "upc_heap", 8, 64));
    GASNET_BLOCKUNTIL(answer != 0);
    mine = place;
    gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof mine,
                           GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    for (gasnet_node_t i = 0; i < np; i++) {
        CHECK(all[i] % 64 == 0 && all[i] < (gasnet_handlerarg_t)(64 * np));
        for (gasnet_node_t k = 0; k < i; k++) CHECK(all[k] != all[i]);
    }
    free(all);
    char data[256];
    memset(data, 'u', sizeof data);
    arrived = 0;
    OK(gasnet_AMRequestLong1(peer, DEPOSIT, data, sizeof data, cell(peer, 128), 192));
    GASNET_BLOCKUNTIL(arrived == 1);
    OK(gasnet_AMRequestLongAsync1(peer, DEPOSIT, data, sizeof data, cell(peer, 128), 256));
    GASNET_BLOCKUNTIL(arrived == 2);
    CHECK(gasnett_checksum(data, sizeof data) == gasnett_checksum(cell(me, 256), sizeof data));
}

static void thread_data(void) {
    GASNET_BEGIN_FUNCTION();
    gasnet_threadinfo_t info = GASNET_GET_THREADINFO();
    GASNET_POST_THREADINFO(info);
    gasnett_tick_t start = gasnett_ticks_now();
    CHECK(start > GASNETT_TICK_MIN);
    CHECK(gasnett_threadkey_get(upc_thread) == NULL);
    gasnett_threadkey_set(upc_thread, &place);
    CHECK(gasnett_threadkey_get(upc_thread) == &place);
    while (gasnett_ticks_to_us(gasnett_ticks_now() - start) < 100) gasnett_sched_yield();
}

int main(int argc, char **argv) {
    test_name = "upc_runtime";
    OK(gasnet_init(&argc, &argv));
    test_start_watchdog();
    me = gasnet_mynode();
    np = gasnet_nodes();
    gasnett_atomic64_set(&heap_end, 0, 0);
    OK(checked(gasnet_attach(handlers, (int)ARRAY_LENGTH(handlers), HEAP, 0)));
    segments = (gasnet_seginfo_t *)malloc(np * sizeof *segments);
    OK(gasnet_getSegmentInfo(segments, (int)np));
#ifdef GASNET_SEGMENT_EVERYTHING
    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
    test_make_block(HEAP);
    for (gasnet_node_t i = 0; i < np; i++) segments[i].addr = test_blocks[i];
#endif
    memset(segments[me].addr, 0, HEAP);
    CHECK(strstr(GASNET_CONFIG_STRING, "RELEASE=") != NULL && gasnett_gethostname()[0] != '\0');
    OK(gasnet_barrier(1, 0));
    gasnet_node_t peer = (me + 1) % np;
    PHASE("relaxed accesses");
    relaxed_accesses(peer);
    memset(segments[me].addr, 0, HEAP);
    all_arrive(11);
    PHASE("locks");
    locked_counter();
    PHASE("heap");
    shared_heap(peer);
    PHASE("threads");
    thread_data();
    PHASE("end");
    OK(gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED));
    gasnet_hsl_destroy(&lock_guard);
    gasnet_exit(test_failures ? 1 : 0);
    return 1;
}
