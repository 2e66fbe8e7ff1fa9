// Explicit and implicit non-blocking put and get: every local completion option, many operations at
// once, synchronised in all ways; sources overwritten after local completion; operations of no
// bytes.
// NP: 1 2 4 7
// TIMEOUT: 90
#include "check.h"

enum { WINDOW = 64, MAX_BYTES = 70000 };
static gex_Rank_t peer;
static char *remote;
static char *source, *back;

static size_t size_of(int i) {
    static const size_t sizes[] = {8, 0, 1, 100, 4096, 3, 65537, 513};
    return sizes[i % 8];
}
static char *slot(char *base, int i) { return base + (size_t)i * MAX_BYTES; }

static void fetch_and_check(int salt) {
    for (int i = 0; i < WINDOW; i++) {
        size_t n = size_of(i);
        memset(slot(back, i), 0, n);
        OK(gex_RMA_GetBlocking(tm, slot(back, i), peer, slot(remote, i), n, 0));
        CHECK_PATTERN(slot(back, i), n, (uint64_t)(salt + i));
    }
}
static void fill(int salt) {
    for (int i = 0; i < WINDOW; i++) pattern_fill(slot(source, i), size_of(i), (uint64_t)(salt + i));
}

static void sync_events(gex_Event_t *event, int how) {
    switch (how % 4) {
        case 0:
            for (int i = 0; i < WINDOW; i++) gex_Event_Wait(event[i]);
            break;
        case 1:
            for (int i = WINDOW - 1; i >= 0; i--)
                while (gex_Event_Test(event[i])) gasnet_AMPoll();
            break;
        case 2: gex_Event_WaitAll(event, WINDOW, 0); break;
        default:
            while (gex_Event_TestAll(event, WINDOW, 0)) gasnet_AMPoll();
            break;
    }
}

static void explicit_puts(int lc_kind, int how) {
    gex_Event_t event[WINDOW], leaf[WINDOW];
    int salt = 100 * lc_kind + how;
    fill(salt);
    for (int i = 0; i < WINDOW; i++) {
        gex_Event_t *lc = lc_kind == 0 ? GEX_EVENT_NOW : lc_kind == 1 ? GEX_EVENT_DEFER : &leaf[i];
        if (size_of(i)) memset(&leaf[i], 0x5A, sizeof leaf[i]);
        else leaf[i] = GEX_EVENT_INVALID; /* rma_empty tests that an empty put writes it */
        event[i] = gex_RMA_PutNB(tm, peer, slot(remote, i), slot(source, i), size_of(i), lc, 0);
        CHECK(event[i] != GEX_EVENT_NO_OP);
        if (lc_kind == 0) memset(slot(source, i), 0xEE, size_of(i));
    }
    if (lc_kind == 2) {
        for (int i = 0; i < WINDOW; i++) {
            if (i % 2) gex_Event_Wait(leaf[i]);
            else
                while (gex_Event_Test(leaf[i])) gasnet_AMPoll();
            memset(slot(source, i), 0xEE, size_of(i));
        }
    }
    sync_events(event, how);
    if (lc_kind == 1) memset(source, 0xEE, (size_t)WINDOW * MAX_BYTES);
    fetch_and_check(salt);
}

static void explicit_gets(int how) {
    gex_Event_t event[WINDOW];
    int salt = 900 + how;
    fill(salt);
    for (int i = 0; i < WINDOW; i++) OK(gex_RMA_PutBlocking(tm, peer, slot(remote, i), slot(source, i), size_of(i), 0));
    memset(back, 0, (size_t)WINDOW * MAX_BYTES);
    for (int i = 0; i < WINDOW; i++) {
        event[i] = gex_RMA_GetNB(tm, slot(back, i), peer, slot(remote, i), size_of(i), 0);
        CHECK(event[i] != GEX_EVENT_NO_OP);
    }
    sync_events(event, how);
    for (int i = 0; i < WINDOW; i++) CHECK_PATTERN(slot(back, i), size_of(i), (uint64_t)(salt + i));
}

static void nbi_wait(gex_EC_t mask, int how) {
    if (how % 2) gex_NBI_Wait(mask, 0);
    else
        while (gex_NBI_Test(mask, 0)) gasnet_AMPoll();
}

static void implicit_puts(int lc_kind, int how) {
    gex_Event_t *lc = lc_kind == 0 ? GEX_EVENT_NOW : lc_kind == 1 ? GEX_EVENT_DEFER : GEX_EVENT_GROUP;
    int salt = 2000 + 100 * lc_kind + how;
    fill(salt);
    for (int i = 0; i < WINDOW; i++) {
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), size_of(i), lc, 0));
        if (lc_kind == 0) memset(slot(source, i), 0xEE, size_of(i));
    }
    if (lc_kind == 2) {
        nbi_wait(GEX_EC_LC, how);
        memset(source, 0xEE, (size_t)WINDOW * MAX_BYTES);
    }
    nbi_wait(how & 2 ? GEX_EC_ALL : GEX_EC_PUT, how);
    fetch_and_check(salt);
}

static void implicit_gets(int how) {
    int salt = 3000 + how;
    fill(salt);
    for (int i = 0; i < WINDOW; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), size_of(i), GEX_EVENT_DEFER, 0));
    gex_NBI_Wait(GEX_EC_PUT, 0);
    memset(back, 0, (size_t)WINDOW * MAX_BYTES);
    for (int i = 0; i < WINDOW; i++) OK(gex_RMA_GetNBI(tm, slot(back, i), peer, slot(remote, i), size_of(i), 0));
    nbi_wait(how & 2 ? GEX_EC_ALL : GEX_EC_GET, how);
    for (int i = 0; i < WINDOW; i++) CHECK_PATTERN(slot(back, i), size_of(i), (uint64_t)(salt + i));
}

/* Puts and gets in flight together: each category is synchronised on its own. */
static void implicit_both(void) {
    int half = WINDOW / 2;
    fill(5000);
    for (int i = 0; i < half; i++) OK(gex_RMA_PutBlocking(tm, peer, slot(remote, i), slot(source, i), size_of(i), 0));
    for (int i = 0; i < half; i++) {
        OK(gex_RMA_GetNBI(tm, slot(back, i), peer, slot(remote, i), size_of(i), 0));
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, half + i), slot(source, half + i), size_of(half + i), GEX_EVENT_DEFER,
                          0));
    }
    gex_NBI_Wait(GEX_EC_GET, 0);
    for (int i = 0; i < half; i++) CHECK_PATTERN(slot(back, i), size_of(i), (uint64_t)(5000 + i));
    gex_NBI_Wait(GEX_EC_PUT | GEX_EC_GET | GEX_EC_RMW | GEX_EC_AM, 0);
    fetch_and_check(5000);
}

int main(int argc, char **argv) {
    test_init("rma_nonblocking", &argc, &argv);
    test_attach((uintptr_t)WINDOW * MAX_BYTES);
    source = (char *)malloc((size_t)WINDOW * MAX_BYTES);
    back = (char *)malloc((size_t)WINDOW * MAX_BYTES);
    PHASE("nothing outstanding");
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    CHECK(gex_NBI_Test(GEX_EC_PUT, 0) == 0 && gex_NBI_Test(GEX_EC_GET, 0) == 0 && gex_NBI_Test(GEX_EC_LC, 0) == 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    CHECK(gex_Event_Test(GEX_EVENT_INVALID) == 0);
    gex_Event_Wait(GEX_EVENT_INVALID);
    for (gex_Rank_t hop = 0; hop < np && hop < (np > 8 ? 1U : 3U); hop++) {
        peer = (me + hop + (np > 8)) % np;
        remote = seg_of(peer);
        barrier();
        for (int lc = 0; lc < 3; lc++) {
            for (int how = 0; how < 4; how++) {
                PHASE("explicit puts");
                explicit_puts(lc, how);
                PHASE("implicit puts");
                implicit_puts(lc, how);
            }
        }
        for (int how = 0; how < 4; how++) {
            PHASE("explicit gets");
            explicit_gets(how);
            PHASE("implicit gets");
            implicit_gets(how);
        }
        PHASE("puts and gets");
        implicit_both();
        barrier();
    }
    return test_finish();
}
