// Constants and types that the specification names: versions, sentinels, distinct flags and
// categories, sizes of types.
// NP: 1
// TIMEOUT: 30
#include "check.h"

static int one_bit(uint64_t x) { return x && !(x & (x - 1)); }

static void check_versions(void) {
    CHECK(GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR == 19);
    CHECK(GASNET_RELEASE_VERSION_MAJOR >= 2025);
    CHECK(GASNET_RELEASE_VERSION_MINOR >= 1 && GASNET_RELEASE_VERSION_MINOR <= 12);
    CHECK(GASNET_RELEASE_VERSION_PATCH >= 0);
    CHECK(GASNET_SUPPORTS_AM_COMMIT_V2 == 20240906L);
    CHECK(GASNET_SUPPORTS_AM_CANCEL == 20240418L);
    CHECK(strlen(GASNET_CONFIG_STRING) > 0);
}

static void check_sentinels(void) {
    gex_Rank_t rank = GEX_RANK_INVALID;
    CHECK(GEX_EVENT_INVALID == (gex_Event_t)0);
    CHECK(GEX_EVENT_NO_OP != (gex_Event_t)0);
    CHECK(GEX_EVENT_NOW != NULL && GEX_EVENT_DEFER != NULL && GEX_EVENT_GROUP != NULL);
    CHECK(GEX_EVENT_NOW != GEX_EVENT_DEFER && GEX_EVENT_NOW != GEX_EVENT_GROUP && GEX_EVENT_DEFER != GEX_EVENT_GROUP);
    CHECK(GEX_AM_SRCDESC_NO_OP == (gex_AM_SrcDesc_t)0);
    CHECK(GEX_CLIENT_INVALID == (gex_Client_t)0);
    CHECK(GEX_EP_INVALID == (gex_EP_t)0);
    CHECK(GEX_TM_INVALID == (gex_TM_t)0);
    CHECK(GEX_SEGMENT_INVALID == (gex_Segment_t)0);
    CHECK((gex_Rank_t)-1 > 0); /* unsigned */
    CHECK(rank >= np && (uint64_t)rank >= (uint64_t)GASNET_MAXNODES);
}

static void check_types(void) {
    CHECK(sizeof(gex_AM_Arg_t) == 4 && (gex_AM_Arg_t)-1 < 0);
    CHECK(sizeof(gex_AM_Index_t) == 1 && (gex_AM_Index_t)-1 > 0);
    CHECK(sizeof(gex_Addr_t) == sizeof(void *));
    CHECK(sizeof(gex_RMA_Value_t) == SIZEOF_GEX_RMA_VALUE_T && (gex_RMA_Value_t)-1 > 0);
    CHECK(SIZEOF_GEX_RMA_VALUE_T >= sizeof(void *));
    CHECK(sizeof(gex_Memvec_t) == sizeof(void *) + sizeof(size_t));
    CHECK((gex_EP_Index_t)-1 > 0);
    CHECK(GASNET_MAXEPS >= 1);
    CHECK(GASNET_PAGESIZE > 0 && one_bit(GASNET_PAGESIZE));
    CHECK(GEX_AM_INDEX_BASE <= 128 && GEX_AM_INDEX_BASE > 0);
    CHECK(GASNET_OK == 0);
}

/* Flags of one API must not share bits. */
static void check_flags(void) {
    CHECK(GEX_FLAG_IMMEDIATE != 0);
    CHECK((GEX_FLAG_PEER_NEVER_SELF & GEX_FLAG_IMMEDIATE) == 0);
    CHECK((GEX_FLAG_PEER_NEVER_NBRHD & GEX_FLAG_IMMEDIATE) == 0);
    CHECK(GEX_FLAG_PEER_NEVER_SELF != 0 && GEX_FLAG_PEER_NEVER_NBRHD != GEX_FLAG_PEER_NEVER_SELF);
    CHECK(GEX_FLAG_AM_PREPARE_LEAST_CLIENT != 0 && GEX_FLAG_AM_PREPARE_LEAST_ALLOC != 0);
    CHECK((GEX_FLAG_AM_PREPARE_LEAST_CLIENT & GEX_FLAG_AM_PREPARE_LEAST_ALLOC) == 0);
    CHECK(((GEX_FLAG_AM_PREPARE_LEAST_CLIENT | GEX_FLAG_AM_PREPARE_LEAST_ALLOC) & GEX_FLAG_IMMEDIATE) == 0);
    CHECK(GEX_FLAG_USES_GASNET1 != 0);
    CHECK((GEX_FLAG_USES_GASNET1 & GEX_FLAG_DEFER_THREADS) == 0);
    CHECK(GEX_FLAG_DEFER_THREADS != 0);
}

static void check_handler_flags(void) {
    gex_Flags_t category[4], direction[3];
    category[0] = GEX_FLAG_AM_SHORT;
    category[1] = GEX_FLAG_AM_MEDIUM;
    category[2] = GEX_FLAG_AM_LONG;
    category[3] = GEX_FLAG_AM_MEDLONG;
    direction[0] = GEX_FLAG_AM_REQUEST;
    direction[1] = GEX_FLAG_AM_REPLY;
    direction[2] = GEX_FLAG_AM_REQREP;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < i; j++) CHECKF(category[i] != category[j], "categories %zu and %zu", i, j);
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < i; j++) CHECKF(direction[i] != direction[j], "directions %zu and %zu", i, j);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++) CHECKF((category[i] & direction[j]) == 0, "category %zu, direction %zu", i, j);
}

/* Masks are combined by bitwise OR; the specification does not say that categories are single
 * bits. */
static void check_categories(void) {
    uint64_t get = (uint64_t)GEX_EC_GET, put = (uint64_t)GEX_EC_PUT, rmw = (uint64_t)GEX_EC_RMW;
    uint64_t am = (uint64_t)GEX_EC_AM, lc = (uint64_t)GEX_EC_LC, all = (uint64_t)GEX_EC_ALL;
    CHECK(get && put && rmw && am && lc);
    CHECK((get & put) == 0 && (get & rmw) == 0 && (put & rmw) == 0);
    CHECK((all & (get | put | rmw | am | lc)) == (get | put | rmw | am | lc));
}

static void check_token_info(void) {
    uint64_t all = 0;
    uint64_t t[5] = {(uint64_t)GEX_TI_SRCRANK, (uint64_t)GEX_TI_EP, (uint64_t)GEX_TI_ENTRY, (uint64_t)GEX_TI_IS_REQ,
                     (uint64_t)GEX_TI_IS_LONG};
    for (size_t i = 0; i < 5; i++) {
        CHECKF(t[i] != 0 && (t[i] & all) == 0, "token query %zu", i);
        all |= t[i];
    }
    CHECK(((uint64_t)GEX_TI_ALL & all) == all);
#if !defined(GASNET_SUPPORTS_TI_SRCRANK) || !defined(GASNET_SUPPORTS_TI_EP)
    CHECK(!"the indicators for required token queries must be defined");
#endif
}

static void check_data_types(void) {
    uint64_t all = 0;
    uint64_t d[7] = {(uint64_t)GEX_DT_I32, (uint64_t)GEX_DT_U32, (uint64_t)GEX_DT_I64, (uint64_t)GEX_DT_U64,
                     (uint64_t)GEX_DT_FLT, (uint64_t)GEX_DT_DBL, (uint64_t)GEX_DT_USER};
    for (size_t i = 0; i < 7; i++) {
        CHECKF(d[i] != 0 && (d[i] & all) == 0, "data type %zu", i);
        all |= d[i];
    }
}

static void check_errors(void) {
    int e[5] = {GASNET_ERR_RESOURCE, GASNET_ERR_BAD_ARG, GASNET_ERR_NOT_INIT, GASNET_ERR_BARRIER_MISMATCH,
                GASNET_ERR_NOT_READY};
    for (size_t i = 0; i < 5; i++) {
        CHECK(e[i] != GASNET_OK);
        CHECK(gasnet_ErrorName(e[i]) != NULL && strlen(gasnet_ErrorName(e[i])) > 0);
        CHECK(gasnet_ErrorDesc(e[i]) != NULL && strlen(gasnet_ErrorDesc(e[i])) > 0);
        for (size_t j = 0; j < i; j++) CHECKF(e[i] != e[j], "errors %zu and %zu", i, j);
    }
    CHECK(strcmp(gasnet_ErrorName(GASNET_OK), "GASNET_OK") == 0);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_RESOURCE), "GASNET_ERR_RESOURCE") == 0);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") == 0);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_NOT_INIT), "GASNET_ERR_NOT_INIT") == 0);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BARRIER_MISMATCH), "GASNET_ERR_BARRIER_MISMATCH") == 0);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_NOT_READY), "GASNET_ERR_NOT_READY") == 0);
    CHECK(gasnet_ErrorName(123456) != NULL);
    CHECK(gasnet_ErrorDesc(123456) != NULL);
}

int main(int argc, char **argv) {
    test_init("constants", &argc, &argv);
    check_versions();
    check_sentinels();
    check_types();
    check_flags();
    check_handler_flags();
    check_categories();
    check_token_info();
    check_data_types();
    check_errors();
    return test_finish();
}
