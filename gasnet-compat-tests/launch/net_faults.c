/* A client of a network that loses, doubles, delays and damages datagrams, and whose cables and
 * ranks come and go: nothing of that may show. All ranks send each other a random mix of messages
 * and transfers; each must come once and as it was, beside collectives. network/test_faults.py
 * starts it.
 *
 * net_faults [--rounds=N] [--steps=N] [--until=FILE] [--seed=N]
 *
 *   --rounds=  rounds that are done at least (2); rank 0 says so after each
 *   --steps=   operations that each rank begins in a round (100)
 *   --until=   rounds are done until this file exists
 */
#include "place.h"

#include "messages.h"
#include "transfers.h"

#include <gasnet_coll.h>

enum { PARTS = 4, BROADCAST_BYTES = 20000, BROADCAST = 77 };

static uint64_t seed = 1;
static char broadcast[BROADCAST_BYTES];

/* A collective that goes on while other things do: a barrier, or a broadcast of `size` bytes. */
static gex_Event_t begin_collective(unsigned number, gex_Rank_t root, uint64_t key, size_t bytes) {
    if (number % 2) return gex_Coll_BarrierNB(tm, 0);
    if (me == root) stress_fill(broadcast, bytes, key);
    else memset(broadcast, 0, bytes);
    return gex_Coll_BroadcastNB(tm, root, broadcast, broadcast, bytes, 0);
}

/* A share of the random traffic of a round, beside a collective. */
static void mix(unsigned number, int steps, uint64_t *random) {
    gex_Rank_t root = number % np;
    uint64_t key = key_of(seed, root, 0, BROADCAST, number);
    size_t bytes = size_of(key, 1, BROADCAST_BYTES);
    gex_Event_t collective = begin_collective(number, root, key, bytes);
    for (int i = 0; i < steps; i++) {
        uint64_t what = next_random(random) >> 8;
        gex_Rank_t with = (gex_Rank_t)(what >> 32) % np;
        switch (what % 16) {
            case 0: gasnet_AMPoll(); break;
            case 1:
            case 2: add(what >> 4, with); break;
            case 3:
            case 4:
            case 5: begin_put(what >> 4, with); break;
            case 6:
            case 7:
            case 8: begin_get(what >> 4, with); break;
            default: send_request(what >> 4, with);
        }
    }
    PHASE("collective");
    gex_Event_Wait(collective);
    CHECKF(number % 2 || stress_same(broadcast, bytes, key), "broadcast %u of rank %u is damaged", number,
           (unsigned)root);
}

int main(int argc, char **argv) {
    unsigned rounds = 2;
    int steps = 100, go_on = 1;
    const char *until = NULL;
    struct place place;
    char **areas, **transfers;
    test_init("net_faults", &argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--rounds=", 9)) rounds = (unsigned)atoi(argv[i] + 9);
        else if (!strncmp(argv[i], "--steps=", 8)) steps = atoi(argv[i] + 8);
        else if (!strncmp(argv[i], "--until=", 8)) until = argv[i] + 8;
        else if (!strncmp(argv[i], "--seed=", 7)) seed = strtoull(argv[i] + 7, NULL, 0);
        else {
            fprintf(stderr, "net_faults: %s is not known\n", argv[i]);
            gasnet_exit(2);
        }
    }
    share_setup();
    register_messages(seed);
    test_attach(messages_bytes() + transfers_bytes());
    areas = (char **)zeroed(np, sizeof *areas);
    transfers = (char **)zeroed(np, sizeof *transfers);
    for (gex_Rank_t r = 0; r < np; r++) {
        areas[r] = seg_of(r);
        transfers[r] = areas[r] + messages_bytes();
    }
    start_messages(areas);
    start_transfers(transfers);
    find_place(&place);
    print_place(&place);
    uint64_t random = key_of(seed, me, np, 0, 0) | 1;
    barrier();
    for (unsigned round = 1; go_on; round++) {
        for (int i = 0; i < PARTS; i++) {
            PHASE("traffic");
            mix(round * PARTS + (unsigned)i, steps / PARTS, &random);
        }
        settle_messages();
        settle_transfers();
        if (me == 0) {
            printf("round %u\n", round);
            fflush(stdout);
        }
        go_on = round < rounds || (until && access(until, F_OK) != 0);
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &go_on, &go_on, sizeof go_on, 0));
    }
    if (!ATOMIC_GET(&test_failures))
        printf("rank %u: %u messages, %u transfers, all right\n", (unsigned)me, (unsigned)(all_sent + answered),
               (unsigned)all_transfers);
    fflush(stdout);
    return test_finish();
}
