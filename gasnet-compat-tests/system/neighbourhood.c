// Neighbourhood and host: sorted tables that contain the caller, consistent on all ranks;
// positions; NULL outputs; a handler may ask. Run with different neighbourhood sizes.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { MAX_LISTED = 100 };

typedef struct {
    unsigned nbrhds, nbrhd_rank, hosts, host_rank;
    unsigned nbrhd_count, host_count;
} Position;

static gex_AM_Index_t handler_index = 201;
static int handled;

typedef void (*Query)(gex_RankInfo_t **, gex_Rank_t *, gex_Rank_t *);

static void query_nbrhd(gex_RankInfo_t **info, gex_Rank_t *count, gex_Rank_t *index) {
    gex_System_QueryNbrhdInfo(info, count, index);
}
static void query_host(gex_RankInfo_t **info, gex_Rank_t *count, gex_Rank_t *index) {
    gex_System_QueryHostInfo(info, count, index);
}

static unsigned check_table(Query query) {
    gex_RankInfo_t *info = NULL, *again = NULL;
    gex_Rank_t count = 0, index = 0, other = 0;
    query(&info, &count, &index);
    REQUIRE(info != NULL);
    REQUIRE(count >= 1 && count <= np);
    REQUIRE(index < count);
    CHECK(info[index].gex_jobrank == gex_System_QueryJobRank());
    for (gex_Rank_t i = 0; i < count; i++) {
        CHECK(info[i].gex_jobrank < np);
        CHECKF(i == 0 || info[i - 1].gex_jobrank < info[i].gex_jobrank, "entry %u is not above its predecessor",
               (unsigned)i);
    }
    query(NULL, NULL, NULL);
    query(&again, NULL, NULL);
    CHECK(again != NULL && again[index].gex_jobrank == gex_System_QueryJobRank());
    query(NULL, &other, NULL);
    CHECK(other == count);
    query(NULL, NULL, &other);
    CHECK(other == index);
    return (unsigned)count;
}

static Position position(void) {
    Position p;
    gex_Rank_t a = 77777, b = 77777, c = 77777, d = 77777, x = 77777;
    gex_System_QueryMyPosition(&a, &b, &c, &d);
    gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
    gex_System_QueryMyPosition(&x, NULL, NULL, NULL);
    CHECK(x == a);
    gex_System_QueryMyPosition(NULL, &x, NULL, NULL);
    CHECK(x == b);
    gex_System_QueryMyPosition(NULL, NULL, &x, NULL);
    CHECK(x == c);
    gex_System_QueryMyPosition(NULL, NULL, NULL, &x);
    CHECK(x == d);
    CHECK(a >= 1 && a <= np && b < a);
    CHECK(c >= 1 && c <= np && d < c);
    CHECK(c <= a); /* a host holds whole neighbourhoods */
    p.nbrhds = (unsigned)a;
    p.nbrhd_rank = (unsigned)b;
    p.hosts = (unsigned)c;
    p.host_rank = (unsigned)d;
    p.nbrhd_count = p.host_count = 0;
    return p;
}

static int contains(gex_RankInfo_t *info, gex_Rank_t count, gex_Rank_t rank) {
    for (gex_Rank_t i = 0; i < count; i++)
        if (info[i].gex_jobrank == rank) return 1;
    return 0;
}

static void handler(gex_Token_t token) {
    gex_Rank_t count = 0, index = 0, a = 0;
    gex_RankInfo_t *info = NULL;
    gex_System_QueryNbrhdInfo(&info, &count, &index);
    CHECK(info != NULL && index < count && info[index].gex_jobrank == me);
    gex_System_QueryHostInfo(&info, &count, &index);
    CHECK(info != NULL && index < count && info[index].gex_jobrank == me);
    gex_System_QueryMyPosition(&a, NULL, NULL, NULL);
    CHECK(a >= 1);
    ATOMIC_ADD(&handled, 1);
}

int main(int argc, char **argv) {
    gex_RankInfo_t *nbrhd, *host;
    gex_Rank_t nbrhd_count, host_count;
    test_init("neighbourhood", &argc, &argv);
    share_setup();
    register_handler(handler_index, (gex_AM_Fn_t)handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    barrier();

    PHASE("tables");
    Position mine = position();
    mine.nbrhd_count = check_table(query_nbrhd);
    mine.host_count = check_table(query_host);
    gex_System_QueryNbrhdInfo(&nbrhd, &nbrhd_count, NULL);
    gex_System_QueryHostInfo(&host, &host_count, NULL);
    for (gex_Rank_t i = 0; i < nbrhd_count; i++)
        CHECKF(contains(host, host_count, nbrhd[i].gex_jobrank), "neighbour %u is on another host",
               (unsigned)nbrhd[i].gex_jobrank);

    PHASE("comparison");
    const void *all = share(&mine, sizeof mine);
    unsigned *seen_nbrhd = (unsigned *)calloc(np, sizeof *seen_nbrhd);
    unsigned *seen_host = (unsigned *)calloc(np, sizeof *seen_host);
    for (gex_Rank_t r = 0; r < np; r++) {
        const Position *p = SHARED(Position, all, r);
        CHECK(p->nbrhds == mine.nbrhds && p->hosts == mine.hosts);
        REQUIRE(p->nbrhd_rank < np && p->host_rank < np);
        CHECK((p->nbrhd_rank == mine.nbrhd_rank) == contains(nbrhd, nbrhd_count, r));
        CHECK((p->host_rank == mine.host_rank) == contains(host, host_count, r));
        if (p->nbrhd_rank == mine.nbrhd_rank) CHECK(p->nbrhd_count == mine.nbrhd_count);
        if (p->host_rank == mine.host_rank) CHECK(p->host_count == mine.host_count);
        seen_nbrhd[p->nbrhd_rank]++;
        seen_host[p->host_rank]++;
    }
    for (gex_Rank_t r = 0; r < np; r++) {
        const Position *p = SHARED(Position, all, r);
        CHECK(seen_nbrhd[p->nbrhd_rank] == p->nbrhd_count);
        CHECK(seen_host[p->host_rank] == p->host_count);
    }
    for (gex_Rank_t i = 0; i < mine.nbrhds; i++) CHECKF(seen_nbrhd[i] > 0, "neighbourhood %u is empty", (unsigned)i);
    for (gex_Rank_t i = 0; i < mine.hosts; i++) CHECKF(seen_host[i] > 0, "host %u is empty", (unsigned)i);
    free(seen_nbrhd);
    free(seen_host);

    PHASE("in a handler");
    for (gex_Rank_t r = 0; r < np; r++) gex_AM_RequestShort0(tm, r, handler_index, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == (int)np);
    barrier();
    return test_finish();
}
