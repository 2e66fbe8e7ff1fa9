/* The segment of each rank: where transfers land, their sources, local ends, and single words. */
#include "selftest.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 65536, BACKGROUND = 7 };
static char **bases; /* by rank, when first used */

size_t most_bytes(void) { return options.quick ? (size_t)1 << 20 : (size_t)4 << 20; }
static size_t part_bytes(void) { return most_bytes() + PAGE; }
size_t segment_bytes(void) { return CONTROL * part_bytes() + PAGE; }

void segment_setup(void) {
    bases = calloc(np, sizeof *bases);
    if (bases == NULL) gasnet_exit(1);
    fill(part_of(me, LANDING), part_bytes(), BACKGROUND, 0);
    fill(part_of(me, SOURCE), part_bytes(), 1000 + me, 0);
    memset(part_of(me, LOCAL), 0, part_bytes());
    memset(part_of(me, CONTROL), 0, PAGE);
}

char *part_of(gex_Rank_t rank, int part) {
    if (bases[rank] == NULL) {
        void *base;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &base, NULL, NULL, 0));
        bases[rank] = base;
    }
    return bases[rank] + (size_t)part * part_bytes();
}

size_t place_for(uint64_t seed, unsigned align) { return 2 * GUARD + seed % 400 * LINE + align / LINE; }

size_t part_offset(const void *own_address) { return (size_t)((const char *)own_address - bases[me]); }

struct finding landed(size_t offset, size_t bytes, uint64_t seed) {
    struct finding found = {0, 0, 0, 0};
    char *at = bases[me] + offset;
    check(&found, at, bytes, seed, offset);
    check(&found, at - GUARD, GUARD, BACKGROUND, offset - GUARD);
    check(&found, at + bytes, GUARD, BACKGROUND, offset + bytes);
    fill(at - GUARD, bytes + 2 * GUARD, BACKGROUND, offset - GUARD);
    found.first -= (long)offset;
    return found;
}
