// Payload limits: at least 512 bytes, never below the least upper bound, falling with the number of
// arguments, the same at both ends, the minimum over all peers for GEX_RANK_INVALID, stable.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

typedef size_t (*Limit)(gex_TM_t, gex_Rank_t, const gex_Event_t *, gex_Flags_t, unsigned);

static size_t request_long(gex_TM_t t, gex_Rank_t r, const gex_Event_t *lc, gex_Flags_t f, unsigned n) {
    return gex_AM_MaxRequestLong(t, r, lc, f, n);
}
static size_t reply_long(gex_TM_t t, gex_Rank_t r, const gex_Event_t *lc, gex_Flags_t f, unsigned n) {
    return gex_AM_MaxReplyLong(t, r, lc, f, n);
}
static size_t request_medium(gex_TM_t t, gex_Rank_t r, const gex_Event_t *lc, gex_Flags_t f, unsigned n) {
    return gex_AM_MaxRequestMedium(t, r, lc, f, n);
}
static size_t reply_medium(gex_TM_t t, gex_Rank_t r, const gex_Event_t *lc, gex_Flags_t f, unsigned n) {
    return gex_AM_MaxReplyMedium(t, r, lc, f, n);
}

/* Local completion options: NOW, GROUP (requests only), a pointer. */
static const gex_Event_t *option(unsigned i) {
    static gex_Event_t event;
    return i == 0 ? GEX_EVENT_NOW : i == 1 ? &event : GEX_EVENT_GROUP;
}

typedef struct {
    uint64_t value[2][3]; /* with flags 0 and IMMEDIATE, for 0, 7 and 16 arguments */
} Record;

static void check_limit(const char *name, Limit limit, size_t lub, int is_reply) {
    static const gex_Flags_t flags[4] = {0, GEX_FLAG_IMMEDIATE, GEX_FLAG_AM_PREPARE_LEAST_CLIENT,
                                         GEX_FLAG_AM_PREPARE_LEAST_ALLOC};
    unsigned options = is_reply ? 2U : 3U;
    PHASE(name);
    CHECKF(lub >= 512, "%s: least upper bound %zu", name, lub);
    for (unsigned o = 0; o < options; o++) {
        for (unsigned f = 0; f < 4; f++) {
            const gex_Event_t *lc = f == 3 ? NULL : option(o); /* no local completion option with a library buffer */
            for (unsigned n = 0; n <= gex_AM_MaxArgs(); n++) {
                size_t low = (size_t)-1;
                for (gex_Rank_t r = 0; r < np; r++) {
                    size_t v = limit(tm, r, lc, flags[f], n);
                    CHECKF(v >= 512, "%s to %u: %zu", name, (unsigned)r, v);
                    if (f < 2) CHECKF(v >= lub, "%s to %u: %zu < %zu", name, (unsigned)r, v, lub);
                    if (n > 0) CHECKF(v <= limit(tm, r, lc, flags[f], n - 1), "%s rises with argument %u", name, n);
                    CHECK(v == limit(tm, r, lc, flags[f], n));
                    if (v < low) low = v;
                }
                CHECKF(limit(tm, GEX_RANK_INVALID, lc, flags[f], n) == low, "%s: minimum is %zu, not %zu", name,
                       limit(tm, GEX_RANK_INVALID, lc, flags[f], n), low);
            }
        }
    }
}

/* Rank r's limit towards me equals mine towards r. */
static void check_symmetry(const char *name, Limit limit) {
    static const unsigned counts[3] = {0, 7, 16};
    PHASE(name);
    for (gex_Rank_t other = 0; other<np; other += np> 16 ? np / 3 : 1) {
        Record record;
        gex_Rank_t partner = (other + np - me) % np; /* pairs: me + partner = other (mod np) */
        for (unsigned f = 0; f < 2; f++)
            for (unsigned i = 0; i < 3; i++)
                record.value[f][i] = limit(tm, partner, GEX_EVENT_NOW, f ? GEX_FLAG_IMMEDIATE : 0, counts[i]);
        const void *all = share(&record, sizeof record);
        CHECKF(memcmp(SHARED(Record, all, partner), &record, sizeof record) == 0, "%s with %u", name,
               (unsigned)partner);
    }
}

int main(int argc, char **argv) {
    test_init("am_limits", &argc, &argv);
    share_setup();
    CHECK(gex_AM_MaxArgs() >= 16);
    check_limit("request Long", request_long, gex_AM_LUBRequestLong(), 0);
    check_limit("reply Long", reply_long, gex_AM_LUBReplyLong(), 1);
    check_limit("request Medium", request_medium, gex_AM_LUBRequestMedium(), 0);
    check_limit("reply Medium", reply_medium, gex_AM_LUBReplyMedium(), 1);
    check_symmetry("request Long, both ends", request_long);
    check_symmetry("reply Long, both ends", reply_long);
    check_symmetry("request Medium, both ends", request_medium);
    check_symmetry("reply Medium, both ends", reply_medium);
    return test_finish();
}
