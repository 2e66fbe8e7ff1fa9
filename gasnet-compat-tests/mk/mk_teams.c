// Teams of endpoints on devices, and of such and primordial ones mixed: transfers by team rank,
// where the inline code must not take device addresses for the host's; barriers; teams that are
// split and destroyed.
// NP: 1 2 4
// DEVICES: yes
#include "device.h"

enum { BYTES = 5000, SPACE = 4 * BYTES };

static place *place_with(gex_EP_Index_t index) {
    int i;
    for (i = 0; i < place_count && places[i].index != index; i++) continue;
    REQUIRE(i < place_count);
    return &places[i];
}

/* Each member puts to and gets from the next. `own` and `next` are the places of this rank's and
 * the next rank's member. */
static void round_trip(gex_TM_t team, place *own, place *next, uint64_t seed) {
    gex_Rank_t size = gex_TM_QuerySize(team), to = (gex_TM_QueryRank(team) + 1) % size;
    gex_Rank_t peer = gex_TM_TranslateRankToJobrank(team, to);
    char *mine = own->base + 2 * BYTES, *theirs = next->theirs[peer];
    void *owner = NULL;
    uint64_t word = 0;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, to, &owner, NULL, NULL, 0));
    CHECK((char *)owner + (uintptr_t)place_offset(next, theirs, theirs) == theirs);
    place_fill(own, mine, BYTES, seed + me);
    OK(gex_RMA_PutBlocking(team, to, theirs + 8, mine, BYTES, 0));
    gex_Event_Wait(gex_RMA_PutNB(team, to, theirs + BYTES + 8, mine, 8, GEX_EVENT_NOW, 0));
    place_fill(own, mine, BYTES, 5);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    CHECK_PLACE(own, own->base + 8, BYTES, seed + (me + np - 1) % np);
    CHECK_PLACE(own, own->base + BYTES + 8, 8, seed + (me + np - 1) % np);
    OK(gex_RMA_GetBlocking(team, mine, to, theirs + 8, BYTES, 0));
    CHECK_PLACE(own, mine, BYTES, seed + me);
    place_fill(own, mine, 8, 5);
    OK(gex_RMA_GetNBI(team, mine, to, theirs + BYTES + 8, 8, 0));
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK_PLACE(own, mine, 8, seed + me);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    OK(gex_RMA_PutBlockingVal(team, to, theirs + 16, 77 + me, 8, 0));
    word = gex_RMA_GetBlockingVal(team, to, theirs + 16, 8, 0);
    CHECK(word == 77 + me);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}

/* Member `rank` is the endpoint `even` or `odd` of that rank. */
static void team_of(gex_EP_Index_t even, gex_EP_Index_t odd, uint64_t seed) {
    gex_EP_Location_t members[64];
    gex_TM_t team = GEX_TM_INVALID;
    for (gex_Rank_t r = 0; r < np; r++) {
        members[r].gex_rank = r;
        members[r].gex_ep_index = r % 2 ? odd : even;
    }
    gex_TM_Create(&team, 1, tm, members, np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    round_trip(team, place_with(members[me].gex_ep_index), place_with(members[(me + 1) % np].gex_ep_index), seed);
    if (np % 2 == 0) {
        gex_TM_t split = GEX_TM_INVALID;
        gex_TM_Split(&split, team, 0, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
        round_trip(split, place_with(members[me].gex_ep_index), place_with(members[(me + 1) % np].gex_ep_index),
                   seed + 50);
        gex_TM_Destroy(split, NULL, 0);
    }
    gex_TM_Destroy(team, NULL, 0);
}

int main(int argc, char **argv) {
    uint64_t seed = 0;
    test_init("mk_teams", &argc, &argv);
    devices_required();
    make_places(SPACE);
    for (int i = 0; i < place_count; i++) {
        for (int j = 0; j < place_count; j++) {
            PHASE("team");
            team_of(places[i].index, places[j].index, seed += 100);
        }
    }
    end_places();
    return test_finish();
}
