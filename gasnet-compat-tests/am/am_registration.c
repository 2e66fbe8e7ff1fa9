// gex_EP_RegisterHandlers: fixed indices, index 0 assigned from 255 downwards in table order after
// the fixed entries, incremental tables, what is written back, the table copied, every index
// usable, error codes for duplicates.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

enum { MARK_COUNT = 256 };
static int hits[MARK_COUNT];
static int total;

/* All handlers are this one; the token identifies the entry that ran. */
static void handler(gex_Token_t token, gex_AM_Arg_t index) {
    gex_Token_Info_t info;
    gex_TI_t got = gex_Token_Info(token, &info, GEX_TI_ENTRY);
    if (got & GEX_TI_ENTRY) {
        CHECKF(info.gex_entry->gex_index == index, "sent to %d, entry has %d", (int)index, info.gex_entry->gex_index);
        CHECK(info.gex_entry->gex_fnptr == (gex_AM_Fn_t)handler);
        CHECK(info.gex_entry->gex_nargs == 1);
    }
    REQUIRE(index >= 0 && index < MARK_COUNT);
    ATOMIC_ADD(&hits[index], 1);
    ATOMIC_ADD(&total, 1);
}

static void other_handler(gex_Token_t token, gex_AM_Arg_t index) { CHECK(!"a rejected entry must not run"); }

static gex_AM_Entry_t entry(gex_AM_Index_t index) {
    gex_AM_Entry_t e = {.gex_index = index,
                        .gex_fnptr = (gex_AM_Fn_t)handler,
                        .gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT,
                        .gex_nargs = 1};
    return e;
}

static void check_rest(const gex_AM_Entry_t *e) {
    CHECK(e->gex_fnptr == (gex_AM_Fn_t)handler);
    CHECK(e->gex_flags == (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT));
    CHECK(e->gex_nargs == 1);
}

int main(int argc, char **argv) {
    gex_AM_Entry_t table[8];
    gex_AM_Entry_t *large;
    char name[16] = "first";
    int cdata = 0;
    static const int expected[8] = {254, 255, 252, 250, 200, 249, GEX_AM_INDEX_BASE, 248};
    test_init("am_registration", &argc, &argv);

    PHASE("empty table");
    OK(gex_EP_RegisterHandlers(ep, NULL, 0));
    OK(gex_EP_RegisterHandlers(ep, table, 0));

    PHASE("fixed and free entries mixed");
    table[0] = entry(0); /* 254: 255, 253 and 251 are fixed below */
    table[1] = entry(255);
    table[2] = entry(0); /* 252 */
    table[3] = entry(0); /* 250 */
    table[4] = entry(200);
    table[5] = entry(0); /* 249 */
    table[6] = entry(GEX_AM_INDEX_BASE);
    table[7] = entry(0); /* 248 */
    gex_AM_Entry_t first[2] = {entry(253), entry(251)};
    first[0].gex_name = name;
    first[0].gex_cdata = &cdata;
    OK(gex_EP_RegisterHandlers(ep, first, 2));
    CHECK(first[0].gex_index == 253 && first[1].gex_index == 251);
    CHECK(first[0].gex_name == name && first[0].gex_cdata == &cdata);
    check_rest(&first[0]);
    memset(first, 0xA5, sizeof first); /* the table was copied */
    OK(gex_EP_RegisterHandlers(ep, table, 8));
    for (int i = 0; i < 8; i++) {
        CHECKF(table[i].gex_index == expected[i], "entry %d got %d, not %d", i, table[i].gex_index, expected[i]);
        check_rest(&table[i]);
    }
    memset(table, 0xA5, sizeof table);

    PHASE("one at a time");
    for (int i = 0; i < 4; i++) {
        gex_AM_Entry_t e = entry(0);
        OK(gex_EP_RegisterHandlers(ep, &e, 1));
        CHECKF(e.gex_index == 247 - i, "got %d", e.gex_index);
    }

    PHASE("duplicates are refused");
    gex_System_SetVerboseErrors(0);
    {
        gex_AM_Entry_t e = entry(200);
        e.gex_fnptr = (gex_AM_Fn_t)other_handler;
        CHECK(gex_EP_RegisterHandlers(ep, &e, 1) != GASNET_OK);
    }
    {
        gex_AM_Entry_t e = entry(244); /* taken by the library above */
        e.gex_fnptr = (gex_AM_Fn_t)other_handler;
        CHECK(gex_EP_RegisterHandlers(ep, &e, 1) != GASNET_OK);
    }
    {
        gex_AM_Entry_t e = entry(GEX_AM_INDEX_BASE - 1); /* below what clients may use */
        e.gex_fnptr = (gex_AM_Fn_t)other_handler;
        CHECK(gex_EP_RegisterHandlers(ep, &e, 1) != GASNET_OK);
    }
    gex_System_SetVerboseErrors(1);

    PHASE("all the rest");
    int n = 256 - GEX_AM_INDEX_BASE - 10 - 4;
    large = (gex_AM_Entry_t *)malloc((size_t)n * sizeof *large);
    for (int i = 0; i < n; i++) large[i] = entry(0);
    OK(gex_EP_RegisterHandlers(ep, large, (size_t)n));
    for (int i = 0; i < n; i++) {
        int want = 243 - i;
        if (want <= 200) want--; /* 200 is fixed */
        CHECKF(large[i].gex_index == want, "entry %d got %d, not %d", i, large[i].gex_index, want);
    }
    free(large);
    barrier();

    PHASE("every index works");
    for (gex_Rank_t r = 0; r < np; r++)
        for (int i = GEX_AM_INDEX_BASE; i < 256; i++)
            OK(gex_AM_RequestShort1(tm, (me + r) % np, (gex_AM_Index_t)i, 0, i));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&total) == (int)np * (256 - GEX_AM_INDEX_BASE));
    barrier();
    for (int i = GEX_AM_INDEX_BASE; i < 256; i++) CHECKF(hits[i] == (int)np, "index %d ran %d times", i, hits[i]);
    return test_finish();
}
