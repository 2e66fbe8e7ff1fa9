/* Does a little of everything that is recorded, and writes down what: for every kind of event how
 * often and how many bytes, and for every peer. test_trace.py compares that with what the library
 * has recorded.
 * Arguments: nothing, "masks", or how it ends: "kill", "abort", "fatal", "hang", "exit". */
#include "../common/check.h"

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>

enum { MAX_KINDS = 64, MAX_PEERS = 64, CLASSES = 4, BYTES = 1 << 20, AREA = 1 << 18 };

static struct {
    const char *name;
    unsigned long count, bytes;
} kinds[MAX_KINDS];
static unsigned long cells[CLASSES][MAX_PEERS][2];
static const char *const class_names[CLASSES] = {"put", "get", "am", "atomic"};
enum { PUT, GET, AM, ATOMIC, NONE };

/* Notes one event. Handlers call it, too; the program has one thread. */
static void did(const char *name, int class_number, gex_Rank_t peer, size_t bytes) {
    int i = 0;
    while (i < MAX_KINDS - 1 && kinds[i].name && strcmp(kinds[i].name, name) != 0) i++;
    kinds[i].name = name;
    kinds[i].count++;
    kinds[i].bytes += bytes;
    if (class_number != NONE && peer < MAX_PEERS) {
        cells[class_number][peer][0]++;
        cells[class_number][peer][1] += bytes;
    }
}

static void write_expectations(void) {
    char name[64];
    snprintf(name, sizeof name, "expect-%u", (unsigned)me);
    FILE *file = fopen(name, "w");
    REQUIRE(file);
    for (int i = 0; i < MAX_KINDS && kinds[i].name; i++)
        fprintf(file, "kind %s %lu %lu\n", kinds[i].name, kinds[i].count, kinds[i].bytes);
    for (int c = 0; c < CLASSES; c++) {
        for (int p = 0; p < MAX_PEERS; p++) {
            if (cells[c][p][0])
                fprintf(file, "cell %s %d %lu %lu\n", class_names[c], p, cells[c][p][0], cells[c][p][1]);
        }
    }
    fclose(file);
}

static gex_Rank_t peer;
static char *theirs, *mine;
static char memory[AREA];
static volatile int replies;

static void team_barrier(void) {
    did("BARRIER_START", NONE, 0, 0);
    did("BARRIER_DONE", NONE, 0, 0);
    barrier();
}

/* ---- Active Messages ---- */

enum { SHORT = 200, MEDIUM, LONG, SHORT_BACK, MEDIUM_BACK };

static void on_short(gex_Token_t token, gex_AM_Arg_t a, gex_AM_Arg_t b) {
    did("RAN_REQUEST_SHORT", NONE, 0, 0);
    did("REPLY_SHORT", AM, source_of(token), 0);
    gex_AM_ReplyShort1(token, SHORT_BACK, 0, a + b);
}

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a) {
    did("RAN_REQUEST_MEDIUM", NONE, 0, bytes);
    did("REPLY_MEDIUM", AM, source_of(token), bytes);
    gex_AM_ReplyMedium1(token, MEDIUM_BACK, buffer, bytes, GEX_EVENT_NOW, 0, a);
}

static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a) {
    did("RAN_REQUEST_LONG", NONE, 0, bytes);
    did("REPLY_SHORT", AM, source_of(token), 0);
    gex_AM_ReplyShort1(token, SHORT_BACK, 0, a);
}

static void on_short_back(gex_Token_t token, gex_AM_Arg_t a) {
    did("RAN_REPLY_SHORT", NONE, 0, 0);
    replies++;
}

static void on_medium_back(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a) {
    did("RAN_REPLY_MEDIUM", NONE, 0, bytes);
    replies++;
}

#define ENTRY(index, function, class_flag, kind_flag, nargs) \
    { index, (gex_AM_Fn_t)function, GEX_FLAG_AM_##class_flag | GEX_FLAG_AM_##kind_flag, nargs, NULL, #function }
static gex_AM_Entry_t handlers[] = {
    ENTRY(SHORT, on_short, REQUEST, SHORT, 2),
    ENTRY(MEDIUM, on_medium, REQUEST, MEDIUM, 1),
    ENTRY(LONG, on_long, REQUEST, LONG, 1),
    ENTRY(SHORT_BACK, on_short_back, REPLY, SHORT, 1),
    ENTRY(MEDIUM_BACK, on_medium_back, REPLY, MEDIUM, 1),
};

static void messages(void) {
    int expected = 0;
    GASNETT_TRACE_SETSOURCELINE("src/messages.c", 30);
    for (int i = 0; i < 6; i++, expected++) {
        did("REQUEST_SHORT", AM, peer, 0);
        gex_AM_RequestShort2(tm, peer, SHORT, 0, i, 1);
    }
    for (size_t bytes = 0; bytes < 100; bytes += 37, expected++) {
        did("REQUEST_MEDIUM", AM, peer, bytes);
        gex_AM_RequestMedium1(tm, peer, MEDIUM, memory, bytes, GEX_EVENT_NOW, 0, 1);
    }
    did("REQUEST_LONG", AM, peer, 500);
    gex_AM_RequestLong1(tm, peer, LONG, memory, 500, theirs, GEX_EVENT_NOW, 0, 1);
    expected++;
    gex_AM_SrcDesc_t message = gex_AM_PrepareRequestMedium(tm, peer, NULL, 10, 64, NULL, 0, 1);
    memset(gex_AM_SrcDescAddr(message), 1, 50);
    did("REQUEST_MEDIUM", AM, peer, 50);
    gex_AM_CommitRequestMedium1(message, MEDIUM, 50, 7);
    expected++;
    GASNET_BLOCKUNTIL(replies == expected);
}

/* ---- puts, gets, atomics ---- */

static void transfers(gex_Rank_t other, char *remote) {
    gex_Event_t events[3];
    GASNETT_TRACE_SETSOURCELINE("src/transfers.c", 10);
    for (int i = 0; i < 3; i++) {
        did("PUT", PUT, other, 100);
        gex_RMA_PutBlocking(tm, other, remote, memory, 100, 0);
        did("GET", GET, other, 200);
        gex_RMA_GetBlocking(tm, memory, other, remote, 200, 0);
    }
    did("PUT", PUT, other, 0);
    gex_RMA_PutBlocking(tm, other, remote, memory, 0, 0);
    did("PUT", PUT, other, 100000);
    gex_RMA_PutBlocking(tm, other, remote, memory, 100000, 0);
    GASNETT_TRACE_SETSOURCELINE("src/transfers.c", 9);
    did("PUT_NB", PUT, other, 1000);
    events[0] = gex_RMA_PutNB(tm, other, remote, memory, 1000, GEX_EVENT_DEFER, 0);
    did("GET_NB", GET, other, 3000);
    events[1] = gex_RMA_GetNB(tm, memory, other, remote, 3000, 0);
    did("PUT_NB_VAL", PUT, other, 2);
    events[2] = gex_RMA_PutNBVal(tm, other, remote, 7, 2, 0);
    gex_Event_WaitAll(events, 3, 0);
    did("PUT_NBI", PUT, other, 9);
    gex_RMA_PutNBI(tm, other, remote, memory, 9, GEX_EVENT_NOW, 0);
    did("GET_NBI", GET, other, 8);
    gex_RMA_GetNBI(tm, memory, other, remote, 8, 0);
    did("PUT_NBI_VAL", PUT, other, 1);
    gex_RMA_PutNBIVal(tm, other, remote, 7, 1, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    did("PUT_VAL", PUT, other, 4);
    gex_RMA_PutBlockingVal(tm, other, remote, 7, 4, 0);
    did("GET_VAL", GET, other, 8);
    (void)gex_RMA_GetBlockingVal(tm, other, remote, 8, 0);
    GASNETT_TRACE_SETSOURCELINE("src/scattered.c", 20);
    gex_Memvec_t to[2] = {{remote, 10}, {remote + 100, 20}}, from[1] = {{memory, 30}};
    void *list[2] = {remote, remote + 64}, *own[1] = {memory};
    ptrdiff_t far_step[1] = {64}, near_step[1] = {16};
    size_t count[1] = {5};
    did("PUT_VECTOR", PUT, other, 30);
    gex_VIS_VectorPutBlocking(tm, other, 2, to, 1, from, 0);
    did("GET_VECTOR", GET, other, 30);
    gex_VIS_VectorGetBlocking(tm, 1, from, other, 2, to, 0);
    did("PUT_INDEXED", PUT, other, 64);
    gex_VIS_IndexedPutBlocking(tm, other, 2, list, 32, 1, own, 64, 0);
    did("GET_INDEXED", GET, other, 64);
    gex_VIS_IndexedGetBlocking(tm, 1, own, 64, other, 2, list, 32, 0);
    did("PUT_STRIDED", PUT, other, 80);
    gex_VIS_StridedPutBlocking(tm, other, remote, far_step, memory, near_step, 16, count, 1, 0);
    did("GET_STRIDED", GET, other, 80);
    gex_VIS_StridedGetBlocking(tm, memory, near_step, other, remote, far_step, 16, count, 1, 0);
}

static void atomics(void) {
    gex_AD_t domain;
    uint64_t old;
    char *word = theirs + 2048;
    GASNETT_TRACE_SETSOURCELINE("src/atomics.c", 40);
    did("CREATE", NONE, 0, 0);
    gex_AD_Create(&domain, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_INC, 0);
    for (int i = 0; i < 4; i++) {
        did("ATOMIC_NB", ATOMIC, peer, 8);
        gex_Event_Wait(gex_AD_OpNB_U64(domain, &old, peer, word, GEX_OP_FADD, 3, 0, 0));
    }
    for (int i = 0; i < 2; i++) {
        did("ATOMIC_NBI", ATOMIC, peer, 8);
        gex_AD_OpNBI_U64(domain, NULL, peer, word, GEX_OP_INC, 0, 0, 0);
    }
    gex_NBI_Wait(GEX_EC_ALL, 0);
    team_barrier();
    did("DESTROY", NONE, 0, 0);
    gex_AD_Destroy(domain);
}

/* ---- barriers, collectives, teams, locks ---- */

static void collectives(void) {
    int32_t sum = 0, one = 1;
    gex_TM_t half;
    GASNETT_TRACE_SETSOURCELINE("src/collectives.c", 50);
    did("COLL_START", NONE, 0, 4000);
    did("COLL_DONE", NONE, 0, 4000);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, memory, memory, 4000, 0));
    did("COLL_START", NONE, 0, 4);
    did("COLL_DONE", NONE, 0, 4);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &one, GEX_DT_I32, 4, 1, GEX_OP_ADD, NULL, NULL, 0));
    CHECK(sum == (int32_t)np);
    did("CREATE", NONE, 0, 0);
    gex_TM_Split(&half, tm, (int)(me & 1), 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    did("BARRIER_START", NONE, 0, 0);
    did("BARRIER_DONE", NONE, 0, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(half, 0));
    did("DESTROY", NONE, 0, 0);
    gex_TM_Destroy(half, NULL, 0);
    GASNETT_TRACE_SETSOURCELINE("src/barriers.c", 60);
    for (int i = 0; i < 2; i++) {
        did("BARRIER_NOTIFY", NONE, 0, 0);
        gasnet_barrier_notify(i, 0);
        did("BARRIER_WAIT", NONE, 0, 0);
        CHECK(gasnet_barrier_wait(i, 0) == GASNET_OK);
    }
}

static void locks(void) {
    gex_HSL_t lock = GEX_HSL_INITIALIZER;
    for (int i = 0; i < 4; i++) {
        did("LOCK", NONE, 0, 0);
        gex_HSL_Lock(&lock);
        did("UNLOCK", NONE, 0, 0);
        gex_HSL_Unlock(&lock);
    }
    did("TRYLOCK", NONE, 0, 0);
    CHECK(gex_HSL_Trylock(&lock) == GASNET_OK);
    did("UNLOCK", NONE, 0, 0);
    gex_HSL_Unlock(&lock);
}

/* Source lines and notes of the client. */
static void notes(void) {
    const char *file = NULL;
    unsigned int line = 0;
    if (GASNETT_TRACE_ENABLED) {
        did("NOTE", NONE, 0, 0);
        did("NOTE_FORCED", NONE, 0, 0);
    }
    GASNETT_TRACE_SETSOURCELINE("src/notes.c", 70);
    GASNETT_TRACE_PRINTF("a note of %u: %s", (unsigned)me, "two\nlines");
    GASNETT_TRACE_FREEZESOURCELINE();
    GASNETT_TRACE_SETSOURCELINE("src/ignored.c", 1);
    GASNETT_TRACE_UNFREEZESOURCELINE();
    GASNETT_TRACE_GETSOURCELINE(&file, &line);
    CHECK(file && strcmp(file, "src/notes.c") == 0 && line == 70);
    GASNETT_TRACE_PRINTF_FORCE("forced %d", 5);
    GASNETT_STATS_PRINTF("for the statistics %d", 6);
    GASNETT_STATS_PRINTF_FORCE("forced for the statistics %d", 7);
    GASNETT_TRACE_SETSOURCELINE(NULL, 0);
}

static void everything(void) {
    transfers(peer, theirs);
    team_barrier();
    transfers(me, mine + AREA);
    team_barrier();
    messages();
    team_barrier();
    atomics();
    collectives();
    locks();
    notes();
    for (int i = 0; i < 10; i++) gasnet_AMPoll();
    team_barrier();
}

/* Masks and TRACELOCAL change while the program runs: puts 1 and 4 are traced, gets never; the put
 * to itself only while that is on. */
static void masks(void) {
    CHECK(strcmp(GASNETT_TRACE_GETMASK(), "PU") == 0);
    CHECK(!GASNETT_TRACE_ENABLED);
    did("PUT", PUT, peer, 1);
    gex_RMA_PutBlocking(tm, peer, theirs, memory, 1, 0);
    gex_RMA_GetBlocking(tm, memory, peer, theirs, 1, 0);
    GASNETT_TRACE_SETMASK("H");
    CHECK(strcmp(GASNETT_TRACE_GETMASK(), "HU") == 0 && GASNETT_TRACE_ENABLED);
    gex_RMA_PutBlocking(tm, peer, theirs, memory, 2, 0);
    GASNETT_TRACE_SETMASK("^G");
    CHECK(strchr(GASNETT_TRACE_GETMASK(), 'G') == NULL && strchr(GASNETT_TRACE_GETMASK(), 'D') != NULL);
    GASNETT_TRACE_SETMASK("P");
    CHECK(GASNETT_TRACE_GET_TRACELOCAL());
    GASNETT_TRACE_SET_TRACELOCAL(0);
    CHECK(!GASNETT_TRACE_GET_TRACELOCAL());
    gex_RMA_PutBlocking(tm, me, mine, memory, 3, 0);
    GASNETT_TRACE_SET_TRACELOCAL(1);
    did("PUT", PUT, peer, 4);
    gex_RMA_PutBlocking(tm, peer, theirs, memory, 4, 0);
    CHECK(GASNETT_STATS_GETMASK() != NULL);
    GASNETT_STATS_DUMP(1);
    gex_RMA_PutBlocking(tm, peer, theirs, memory, 8, 0);
    GASNETT_STATS_DUMP(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    uintptr_t size;
    test_init("busy", &argc, &argv);
    gex_EP_RegisterHandlers(ep, handlers, ARRAY_LENGTH(handlers));
    did("CREATE", NONE, 0, 0);
    OK(gex_Segment_Attach(&segment, tm, BYTES));
    peer = (me + 1) % np;
    mine = gex_Segment_QueryAddr(segment);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, (void **)&theirs, NULL, &size, 0));
    if (!strcmp(what, "masks")) {
        masks();
    } else {
        team_barrier();
        everything();
    }
    if (strcmp(what, "masks") != 0) {
        /* Those of test_finish. */
        for (int i = 0; i < 2; i++) {
            did("BARRIER_START", NONE, 0, 0);
            did("BARRIER_DONE", NONE, 0, 0);
        }
    }
    write_expectations();
    if (!strcmp(what, "heap")) {
        /* Left to the end, three objects asked for at one line. */
        for (size_t i = 0; i < 3; i++) CHECK(gasnett_debug_malloc(1000 + me + i) != NULL);
    }
    if (!strcmp(what, "kill") && me == np - 1) {
        raise(SIGKILL);
    } else if (!strcmp(what, "abort") && me == np - 1) {
        abort();
    } else if (!strcmp(what, "fatal") && me == np - 1) {
        gasnett_fatalerror("the end");
    } else if (!strcmp(what, "hang") && me == 0) {
        /* Nobody answers: the trace must tell the last event before. */
        gasnet_barrier_notify(0, 0);
        puts("waiting");
        fflush(stdout);
        gasnet_barrier_wait(0, 0);
    } else if (!strcmp(what, "hang") || !strcmp(what, "kill")) {
        for (;;) pause();
    } else if (!strcmp(what, "exit") && me == 0) {
        gasnet_exit(7);
    }
    return test_finish();
}
