// Puts, gets and memset of GASNet-1: blocking, with handles and implicit, bulk and not, every size
// and alignment, to every rank; when the source of a put may be reused.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check1.h"

enum { MOST = 70000, SLOT = 3 * MOST };
static const size_t sizes[] = {0, 1, 2, 3, 4, 8, 15, 64, 1000, 4096, 16384, 16385, 40000, MOST - 16};
static char *local, *scratch, *back;

/* My part of a rank's segment. Few parts serve many ranks: senders then take turns. */
enum { PARTS = 8 };
static char *target(gasnet_node_t peer, size_t offset) { return at(peer, (me % PARTS) * (size_t)SLOT + offset); }

enum { BLOCKING, BLOCKING_BULK, HANDLE, HANDLE_BULK, IMPLICIT, IMPLICIT_BULK, KINDS };
static const char *const names[] = {"blocking", "blocking bulk", "handle", "handle bulk", "implicit", "implicit bulk"};

/* Puts `bytes` bytes of `source`. A source that may be reused at return is overwritten at once. */
static void put(int kind, gasnet_node_t peer, char *dest, char *source, size_t bytes) {
    gasnet_handle_t handle = GASNET_INVALID_HANDLE;
    switch (kind) {
        case BLOCKING: gasnet_put(peer, dest, source, bytes); break;
        case BLOCKING_BULK: gasnet_put_bulk(peer, dest, source, bytes); break;
        case HANDLE: handle = gasnet_put_nb(peer, dest, source, bytes); break;
        case HANDLE_BULK: handle = gasnet_put_nb_bulk(peer, dest, source, bytes); break;
        case IMPLICIT: gasnet_put_nbi(peer, dest, source, bytes); break;
        default: gasnet_put_nbi_bulk(peer, dest, source, bytes); break;
    }
    if (kind != HANDLE_BULK && kind != IMPLICIT_BULK) memset(source, 0xee, bytes);
    gasnet_wait_syncnb(handle);
    if (kind == IMPLICIT) gasnet_wait_syncnbi_puts();
    if (kind == IMPLICIT_BULK) gasnet_wait_syncnbi_all();
}

static void get(int kind, char *dest, gasnet_node_t peer, char *source, size_t bytes) {
    gasnet_handle_t handle = GASNET_INVALID_HANDLE;
    switch (kind) {
        case BLOCKING: gasnet_get(dest, peer, source, bytes); break;
        case BLOCKING_BULK: gasnet_get_bulk(dest, peer, source, bytes); break;
        case HANDLE: handle = gasnet_get_nb(dest, peer, source, bytes); break;
        case HANDLE_BULK: handle = gasnet_get_nb_bulk(dest, peer, source, bytes); break;
        case IMPLICIT: gasnet_get_nbi(dest, peer, source, bytes); break;
        default: gasnet_get_nbi_bulk(dest, peer, source, bytes); break;
    }
    gasnet_wait_syncnb(handle);
    if (kind == IMPLICIT) gasnet_wait_syncnbi_gets();
    if (kind == IMPLICIT_BULK) gasnet_wait_syncnbi_all();
}

static void transfers(gasnet_node_t peer) {
    for (int kind = 0; kind < KINDS; kind++) {
        PHASE(names[kind]);
        for (int i = 0; i < (int)ARRAY_LENGTH(sizes); i++) {
            size_t bytes = sizes[i], shift = (size_t)(kind + i) % 9;
            uint64_t seed = (uint64_t)(kind * 100 + i) + me;
            pattern_fill(scratch + shift, bytes, seed);
            memset(back, 0x77, MOST);
            put(kind, peer, target(peer, shift), scratch + shift, bytes);
            get(kind, back + shift, peer, target(peer, shift), bytes);
            CHECK_PATTERN(back + shift, bytes, seed);
            CHECK((shift == 0 || back[shift - 1] == 0x77) && back[shift + bytes] == 0x77);
        }
    }
}

static void fill(int kind, gasnet_node_t peer, char *dest, int value, size_t bytes) {
    switch (kind) {
        case 0: gasnet_memset(peer, dest, value, bytes); break;
        case 1: gasnet_wait_syncnb(gasnet_memset_nb(peer, dest, value, bytes)); break;
        case 2:
            gasnet_memset_nbi(peer, dest, value, bytes);
            gasnet_wait_syncnbi_puts();
            break;
        default:
            gasnet_begin_nbi_accessregion();
            gasnet_memset_nbi(peer, dest, value, bytes);
            gasnet_wait_syncnb(gasnet_end_nbi_accessregion());
            break;
    }
}

static void fills(gasnet_node_t peer) {
    PHASE("memset");
    memset(local, 0x11, MOST);
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < (int)ARRAY_LENGTH(sizes); i++) {
            size_t bytes = sizes[i], j;
            int value = 0x180 + i; /* only the low byte counts */
            gasnet_put_bulk(peer, target(peer, 0), local, MOST);
            fill(kind, peer, target(peer, 5), value, bytes);
            gasnet_get_bulk(back, peer, target(peer, 0), MOST);
            for (j = 0; j < bytes && (unsigned char)back[5 + j] == (value & 0xff); j++) continue;
            CHECKF(j == bytes, "memset %d: byte %zu of %zu is wrong", kind, j, bytes);
            CHECK(back[4] == 0x11 && back[5 + bytes] == 0x11);
        }
    }
}

int main(int argc, char **argv) {
    gasnet1_init("rma", &argc, &argv);
    gasnet1_attach(NULL, 0, (uintptr_t)PARTS * SLOT);
    local = (char *)malloc(MOST);
    scratch = (char *)malloc(MOST);
    back = (char *)malloc(MOST);
    gasnet1_barrier();
    unsigned step = np > 8 ? (unsigned)np / 3 : 1U;
    for (unsigned turn = 0; turn < np; turn += PARTS) {
        if (me / PARTS == turn / PARTS) {
            for (unsigned hop = 0; hop < np; hop += step) {
                transfers((gasnet_node_t)((me + hop) % np));
                fills((gasnet_node_t)((me + hop) % np));
            }
        }
        gasnet1_barrier();
    }
    return test_finish();
}
