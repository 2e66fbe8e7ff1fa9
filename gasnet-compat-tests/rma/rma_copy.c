// GEX_FLAG_LC_COPY_YES: a put to a rank that does not poll is injected and locally complete
// although nothing takes its data yet; the data is right.
// NP: 2 3
// TIMEOUT: 60
#include "check.h"

#include <fcntl.h>
#include <gasnet_coll.h>
#include <sys/stat.h>

enum { BYTES = 3000001 };

/* A pipe that all ranks of this host have: `last` makes it. */
static int open_pipe(gex_Rank_t last) {
    const char *folder = getenv("TMPDIR");
    char path[256];
    int opened;
    snprintf(path, sizeof path, "%s/rma_copy-%d", folder ? folder : "/tmp", (int)getpid());
    REQUIRE(me != last || mkfifo(path, 0600) == 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, last, path, path, sizeof path, 0));
    REQUIRE((opened = open(path, O_RDWR)) >= 0);
    barrier();
    if (me == last) unlink(path);
    return opened;
}

int main(int argc, char **argv) {
    /* All ranks but the last put to the last one, which sleeps in a read until all have local
     * completion. */
    char byte = 0;
    test_init("rma_copy", &argc, &argv);
    gex_Rank_t last = np - 1;
    int woken = open_pipe(last);
    test_attach(((uintptr_t)BYTES * np + 4095) / 4096 * 4096);
    char *data = (char *)malloc(BYTES);
    REQUIRE(data != NULL);
    pattern_fill(data, BYTES, me);
    /* A network that connects at the first contact does that while the target polls. */
    gex_RMA_PutBlocking(tm, last, seg_of(last) + (size_t)me * BYTES, data, 1, 0);
    barrier();
    if (me == last) {
        for (gex_Rank_t r = 0; r < last; r++) REQUIRE(read(woken, &byte, 1) == 1);
    } else {
        gex_Event_t local;
        gex_Event_t done =
            gex_RMA_PutNB(tm, last, seg_of(last) + (size_t)me * BYTES, data, BYTES, &local, GEX_FLAG_LC_COPY_YES);
        gex_Event_Wait(local);
        memset(data, 0, BYTES); /* it was copied */
        REQUIRE(write(woken, &byte, 1) == 1);
        gex_Event_Wait(done);
    }
    barrier();
    if (me == last) {
        for (gex_Rank_t r = 0; r < last; r++) CHECK_PATTERN(seg_of(me) + (size_t)r * BYTES, BYTES, r);
    }
    barrier();
    /* NO changes nothing that a client could see. */
    pattern_fill(data, BYTES, me + 50);
    gex_Event_Wait(
        gex_RMA_PutNB(tm, (me + 1) % np, seg_of((me + 1) % np), data, 70001, GEX_EVENT_NOW, GEX_FLAG_LC_COPY_NO));
    barrier();
    CHECK_PATTERN(seg_of(me), 70001, (me + np - 1) % np + 50);
    barrier();
    free(data);
    return test_finish();
}
