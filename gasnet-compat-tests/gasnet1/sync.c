// Synchronisation of GASNet-1: wait and try of one handle, of arrays (all, some), of implicit puts,
// gets and both, with many operations in flight; access regions, also with operations that have a
// handle inside; empty sets and invalid handles.
// NP: 1 2 4
// TIMEOUT: 60
#include "check1.h"

enum { MANY = 300, BYTES = 5000, LARGE = 60000, CELL = 16 };
static char *source, *dest;
static gasnet_handle_t handles[MANY];
static gasnet_node_t peer;

static void nothing(void) {
    gasnet_handle_t none[3] = {GASNET_INVALID_HANDLE, GASNET_INVALID_HANDLE, GASNET_INVALID_HANDLE};
    PHASE("nothing to wait for");
    gasnet_wait_syncnb(GASNET_INVALID_HANDLE);
    CHECK(gasnet_try_syncnb(GASNET_INVALID_HANDLE) == GASNET_OK);
    CHECK(gasnet_try_syncnb_nopoll(GASNET_INVALID_HANDLE) == GASNET_OK);
    gasnet_wait_syncnb_all(none, 3);
    gasnet_wait_syncnb_some(none, 3);
    gasnet_wait_syncnb_all(NULL, 0);
    gasnet_wait_syncnb_some(NULL, 0);
    CHECK(gasnet_try_syncnb_all(none, 3) == GASNET_OK && gasnet_try_syncnb_some(none, 3) == GASNET_OK);
    CHECK(gasnet_try_syncnb_all(NULL, 0) == GASNET_OK && gasnet_try_syncnb_some(NULL, 0) == GASNET_OK);
    gasnet_wait_syncnbi_all();
    gasnet_wait_syncnbi_gets();
    gasnet_wait_syncnbi_puts();
    CHECK(gasnet_try_syncnbi_all() == GASNET_OK && gasnet_try_syncnbi_gets() == GASNET_OK &&
          gasnet_try_syncnbi_puts() == GASNET_OK);
    gasnet_begin_nbi_accessregion();
    gasnet_wait_syncnb(gasnet_end_nbi_accessregion());
}

static int valid(void) {
    int n = 0;
    for (int i = 0; i < MANY; i++) n += handles[i] != GASNET_INVALID_HANDLE;
    return n;
}

/* Starts MANY gets or puts of CELL bytes and a few large ones. */
static void start_all(int puts) {
    for (int i = 0; i < MANY; i++) {
        char *cell = at(peer, LARGE + (size_t)i * CELL), *mine = (puts ? source : dest) + (size_t)i * CELL;
        if (i % 7 == 3) handles[i] = GASNET_INVALID_HANDLE;
        else if (puts)
            handles[i] = (i & 1) ? gasnet_put_nb(peer, cell, mine, CELL) : gasnet_put_nb_bulk(peer, cell, mine, CELL);
        else handles[i] = (i & 1) ? gasnet_get_nb(mine, peer, cell, CELL) : gasnet_get_nb_bulk(mine, peer, cell, CELL);
    }
}

/* The four ways to complete an array. */
static void complete(int how) {
    int before, rc;
    switch (how) {
        case 0: gasnet_wait_syncnb_all(handles, MANY); break;
        case 1:
            while ((before = valid()) > 0) {
                gasnet_wait_syncnb_some(handles, MANY);
                CHECK(valid() < before);
            }
            break;
        case 2:
            do {
                rc = gasnet_try_syncnb_all(handles, MANY);
                CHECK(rc == GASNET_OK || rc == GASNET_ERR_NOT_READY);
                CHECK((rc == GASNET_OK) == (valid() == 0));
            } while (rc != GASNET_OK);
            break;
        default:
            while ((before = valid()) > 0) {
                rc = gasnet_try_syncnb_some(handles, MANY);
                CHECK(rc == GASNET_OK ? valid() < before : (rc == GASNET_ERR_NOT_READY && valid() == before));
            }
            break;
    }
    CHECK(valid() == 0);
}

static void arrays(void) {
    PHASE("arrays of handles");
    for (int how = 0; how < 4; how++) {
        pattern_fill(source, MANY * CELL, (uint64_t)how + me);
        memset(dest, 0, MANY * CELL);
        gasnet_memset(peer, at(peer, LARGE), 0, MANY * CELL);
        start_all(1);
        complete(how);
        start_all(0);
        complete(how);
        for (int i = 0; i < MANY; i++) {
            char zero[CELL] = {0};
            const char *wanted = i % 7 == 3 ? zero : source + (size_t)i * CELL;
            CHECKF(!memcmp(dest + (size_t)i * CELL, wanted, CELL), "cell %d, way %d", i, how);
        }
    }
}

static void single(void) {
    PHASE("one handle");
    for (int i = 0; i < 50; i++) {
        pattern_fill(source, LARGE, (uint64_t)i);
        gasnet_handle_t handle = (i & 1) ? gasnet_put_nb_bulk(peer, at(peer, 0), source, LARGE)
                                         : gasnet_put_nb(peer, at(peer, 0), source, LARGE);
        if (i % 4 == 0) {
            while (gasnet_try_syncnb(handle) != GASNET_OK) continue;
        } else if (i % 4 == 1) {
            int rc;
            while ((rc = gasnet_try_syncnb_nopoll(handle)) != GASNET_OK) {
                CHECK(rc == GASNET_ERR_NOT_READY);
                gasnet_AMPoll();
            }
        } else {
            gasnet_wait_syncnb(handle);
        }
        handle = (i & 1) ? gasnet_get_nb(dest, peer, at(peer, 0), LARGE)
                         : gasnet_get_nb_bulk(dest, peer, at(peer, 0), LARGE);
        while (gasnet_try_syncnb(handle) == GASNET_ERR_NOT_READY) continue;
        CHECK_PATTERN(dest, LARGE, (uint64_t)i);
    }
}

static void implicit(void) {
    int rc;
    PHASE("implicit operations");
    for (int round = 0; round < 6; round++) {
        pattern_fill(source, MANY * CELL, 50 + (uint64_t)round);
        for (int i = 0; i < MANY; i++) {
            char *cell = at(peer, LARGE + (size_t)i * CELL);
            if (i & 1) gasnet_put_nbi(peer, cell, source + (size_t)i * CELL, CELL);
            else gasnet_put_nbi_bulk(peer, cell, source + (size_t)i * CELL, CELL);
        }
        if (round % 3 == 0) gasnet_wait_syncnbi_puts();
        else if (round % 3 == 1) gasnet_wait_syncnbi_all();
        else
            while ((rc = gasnet_try_syncnbi_puts()) != GASNET_OK) CHECK(rc == GASNET_ERR_NOT_READY);
        CHECK(gasnet_try_syncnbi_puts() == GASNET_OK);
        memset(dest, 0, MANY * CELL);
        for (int i = 0; i < MANY; i++) {
            char *cell = at(peer, LARGE + (size_t)i * CELL);
            if (i & 1) gasnet_get_nbi(dest + (size_t)i * CELL, peer, cell, CELL);
            else gasnet_get_nbi_bulk(dest + (size_t)i * CELL, peer, cell, CELL);
        }
        if (round % 3 == 0) gasnet_wait_syncnbi_gets();
        else if (round % 3 == 1)
            while ((rc = gasnet_try_syncnbi_all()) != GASNET_OK) CHECK(rc == GASNET_ERR_NOT_READY);
        else
            while ((rc = gasnet_try_syncnbi_gets()) != GASNET_OK) CHECK(rc == GASNET_ERR_NOT_READY);
        CHECK_PATTERN(dest, MANY * CELL, 50 + (uint64_t)round);
    }
}

static void regions(void) {
    PHASE("access regions");
    for (int round = 0; round < 20; round++) {
        char one[BYTES], outside[CELL];
        pattern_fill(source, LARGE, 90 + (uint64_t)round);
        gasnet_put_nbi(peer, at(peer, LARGE + 8000), source, CELL); /* before the region: stays implicit */
        gasnet_begin_nbi_accessregion();
        for (int i = 0; i < 12; i++)
            gasnet_put_nbi_bulk(peer, at(peer, (size_t)i * BYTES), source + (size_t)i * BYTES, BYTES);
        /* with a handle: not part of the region */
        gasnet_put(peer, at(peer, LARGE + 9000), source, BYTES);
        gasnet_handle_t inside = gasnet_get_nb_bulk(one, peer, at(peer, LARGE + 9000), BYTES);
        gasnet_handle_t filled = gasnet_memset_nb(peer, at(peer, LARGE + 8100), round, CELL);
        gasnet_wait_syncnb(inside);
        gasnet_wait_syncnb(filled);
        CHECK_PATTERN(one, BYTES, 90 + (uint64_t)round);
        gasnet_handle_t region = gasnet_end_nbi_accessregion();
        if (round & 1) gasnet_wait_syncnb(region);
        else
            while (gasnet_try_syncnb(region) != GASNET_OK) continue;
        gasnet_get_bulk(dest, peer, at(peer, 0), LARGE);
        CHECK_PATTERN(dest, LARGE, 90 + (uint64_t)round);
        gasnet_wait_syncnbi_all();
        gasnet_get(outside, peer, at(peer, LARGE + 8000), CELL);
        CHECK_PATTERN(outside, CELL, 90 + (uint64_t)round);
    }
}

int main(int argc, char **argv) {
    gasnet1_init("sync", &argc, &argv);
    gasnet1_attach(NULL, 0, LARGE + 20000);
    peer = (me + 1) % np;
    source = (char *)malloc(LARGE);
    dest = (char *)malloc(LARGE);
    gasnet1_barrier();
    nothing();
    single();
    arrays();
    implicit();
    regions();
    nothing();
    gasnet1_barrier();
    return test_finish();
}
