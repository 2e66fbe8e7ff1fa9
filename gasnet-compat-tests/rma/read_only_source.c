// Puts, Longs and Mediums whose source lies on pages that cannot be written.
// NP: 1 2 3
#include "check.h"

#include <sys/mman.h>

enum { MOST = 300001, HANDLER = 200 };
static int handled;

static void on_message(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&handled, 1);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {8, 100, 2000, 5000, 64000, 70000, MOST};
    gex_AM_Entry_t handlers[] = {
        {HANDLER, (gex_AM_Fn_t)on_message, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDLONG, 1, NULL, "message"},
    };
    int expected = 0;
    test_init("read_only_source", &argc, &argv);
    REQUIRE(gex_EP_RegisterHandlers(ep, handlers, 1) == GASNET_OK);
    test_attach(2 * MOST);
    gex_Rank_t right = (me + 1) % np;
    char *there = seg_of(right);
    char *source = (char *)mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(source != MAP_FAILED);
    pattern_fill(source, MOST, 77);
    REQUIRE(mprotect(source, MOST, PROT_READ) == 0);
    barrier();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        gex_Event_t local;
        OK(gex_RMA_PutBlocking(tm, right, there, source, bytes, 0));
        barrier();
        CHECK_PATTERN(seg_of(me), bytes, 77);
        barrier();
        OK(gex_RMA_PutNBI(tm, right, there + MOST, source, bytes, GEX_EVENT_NOW, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        barrier();
        CHECK_PATTERN(seg_of(me) + MOST, bytes, 77);
        barrier();
        OK(gex_AM_RequestLong1(tm, right, HANDLER, source, bytes, there, &local, 0, 77));
        gex_Event_Wait(local);
        if (bytes <= gex_AM_LUBRequestMedium()) { /* the same for all pairs */
            OK(gex_AM_RequestMedium1(tm, right, HANDLER, source, bytes, &local, 0, 77));
            gex_Event_Wait(local);
            expected++;
        }
        expected++;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == expected);
        barrier();
    }
    munmap(source, MOST);
    return test_finish();
}
