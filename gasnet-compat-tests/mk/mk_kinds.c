// Memory kinds and their segments: what may be asked for, error codes and what is left alone with
// them, failures of the device, contexts that stay current, the order of destruction, and nothing
// left at the end.
// NP: 1 2
// DEVICES: yes
#include "device.h"

static gex_MK_t untouched = (gex_MK_t)(uintptr_t)0x1234;
static gex_Segment_t no_segment = (gex_Segment_t)(uintptr_t)0x5678;

static int create(gex_MK_t *kind, const gex_MK_Create_args_t *args, gex_Flags_t flags) {
    int result = gex_MK_Create(kind, client, args, flags);
    CHECK(result == GASNET_OK || *kind == untouched);
    return result;
}
static int segment_of(gex_Segment_t *out, void *address, uintptr_t bytes, gex_MK_t kind, gex_Flags_t flags) {
    int result = gex_Segment_Create(out, client, address, bytes, kind, flags);
    CHECK(result == GASNET_OK || *out == no_segment);
    return result;
}

/* Arguments that no class takes. */
static void arguments(void) {
    gex_MK_Create_args_t args;
    gex_MK_t kind = untouched;
    PHASE("arguments");
    memset(&args, 0, sizeof args);
    args.gex_class = (gex_MK_Class_t)99;
    CHECK(create(&kind, &args, 0) == GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_HOST;
    CHECK(create(&kind, &args, 1) == GASNET_ERR_BAD_ARG);
    args.gex_flags = 1;
    CHECK(create(&kind, &args, 0) == GASNET_ERR_BAD_ARG);
    args.gex_flags = 0;
    CHECK(gex_MK_Create(NULL, client, &args, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_MK_Create(&kind, GEX_CLIENT_INVALID, &args, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_MK_Create(&kind, client, NULL, 0) == GASNET_ERR_BAD_ARG);
    CHECK(kind == untouched);
    OK(create(&kind, &args, 0));
    CHECK(kind == GEX_MK_HOST);
    gex_MK_Destroy(kind, 0); /* stays */
    OK(create(&kind, &args, 0));
}

static void class_arguments(device_class *c) {
    gex_MK_Create_args_t args = kind_args(c, 0);
    gex_MK_t kind = untouched;
    PHASE(c->name);
    if (c->number == GEX_MK_CLASS_ZE) {
        args.gex_args.gex_class_ze.gex_zeDevice = NULL;
        CHECK(create(&kind, &args, 0) == GASNET_ERR_BAD_ARG);
        args = kind_args(c, 0);
        args.gex_args.gex_class_ze.gex_zeContext = NULL;
        CHECK(create(&kind, &args, 0) == GASNET_ERR_BAD_ARG);
    } else {
        int bad[] = {-1, c->devices, 1000000};
        for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
            args = kind_args(c, bad[i]);
            CHECK(create(&kind, &args, 0) == GASNET_ERR_BAD_ARG);
        }
    }
}

static void segments(device_class *c) {
    enum { BYTES = 100000 };
    gex_MK_t kind = make_kind(c, 0), other = c->devices > 1 ? make_kind(c, 1) : GEX_MK_INVALID;
    gex_Segment_t made = no_segment, second = no_segment;
    char *mine = (char *)c->alloc(c, 0, BYTES);
    gex_EP_t new_ep = GEX_EP_INVALID;
    int before = c->live ? c->live(LIVE_MEMORIES) : 0;
    void *host = calloc(1, BYTES);
    REQUIRE(mine != NULL);
    CHECK(segment_of(&made, NULL, 0, kind, 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, NULL, 1000, kind, 1) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, NULL, 1000, GEX_MK_INVALID, 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, NULL, 1000, (gex_MK_t)((uintptr_t)kind + 8), 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, mine, 0, kind, 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, mine, UINTPTR_MAX, kind, 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, host, BYTES, kind, 0) == GASNET_ERR_BAD_ARG); /* not the device's */
    if (c->live) CHECK(segment_of(&made, mine, BYTES + (1 << 20), kind, 0) == GASNET_ERR_BAD_ARG);
    if (other != GEX_MK_INVALID && c->number != GEX_MK_CLASS_ZE)
        CHECK(segment_of(&made, mine, BYTES, other, 0) == GASNET_ERR_BAD_ARG);
    CHECK(segment_of(&made, NULL, UINTPTR_MAX / 4, kind, 0) == GASNET_ERR_RESOURCE); /* more than any device has */
    CHECK(!c->live || c->live(LIVE_MEMORIES) == before);
    /* a part of the client's memory, at an odd place; and the library's, of exactly the length */
    OK(segment_of(&made, mine + 13, 777, kind, 0));
    CHECK(gex_Segment_QueryAddr(made) == mine + 13 && gex_Segment_QuerySize(made) == 777 &&
          gex_Segment_QueryClient(made) == client);
    OK(segment_of(&second, NULL, 12345, kind, 0));
    CHECK(gex_Segment_QueryAddr(second) != NULL && gex_Segment_QuerySize(second) == 12345 &&
          gex_Segment_QueryFlags(second) == 0);
    CHECK(gex_Segment_QueryCData(second) == NULL);
    gex_Segment_SetCData(second, host);
    CHECK(gex_Segment_QueryCData(second) == host && gex_Segment_QueryCData(made) == NULL);
    /* never to the primordial endpoint; to several others */
    CHECK(gex_EP_BindSegment(ep, made, 0) == GASNET_ERR_BAD_ARG && gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    OK(gex_EP_Create(&new_ep, client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_EP_BindSegment(new_ep, made, 0));
    CHECK(gex_EP_BindSegment(new_ep, second, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_QuerySegment(new_ep) == made);
    gex_Segment_Destroy(made, 0);
    CHECK(gex_EP_QuerySegment(new_ep) == GEX_SEGMENT_INVALID);
    OK(gex_EP_BindSegment(new_ep, second, 0));
    /* segments before kinds, in any order among them; the client's memory is still the client's */
    gex_Segment_Destroy(second, 0);
    CHECK(!c->live || c->live(LIVE_MEMORIES) == before);
    gex_MK_Destroy(kind, 0);
    if (other != GEX_MK_INVALID) gex_MK_Destroy(other, 0);
    CHECK(c->write(c, mine, host, BYTES) == 0);
    made = no_segment;
    CHECK(segment_of(&made, NULL, 1000, kind, 0) == GASNET_ERR_BAD_ARG); /* the kind is gone */
    c->release(c, mine);
    free(host);
}

/* Kinds of one device at once, and again and again. */
static void many(device_class *c) {
    gex_MK_t kinds[20];
    int before = c->live ? c->live(LIVE_STREAMS) : 0;
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) kinds[i] = make_kind(c, (int)i % c->devices);
        for (size_t i = 1; i < ARRAY_LENGTH(kinds); i++) CHECK(kinds[i] != kinds[i - 1]);
        for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) gex_MK_Destroy(kinds[i ^ 1], 0);
    }
    CHECK(!c->live || c->live(LIVE_STREAMS) == before);
}

/* Failures of the stand-in: their codes, and nothing is kept of a failed call. */
static void failures(device_class *c) {
    gex_MK_Create_args_t args = kind_args(c, 0);
    gex_MK_t kind = untouched;
    gex_Segment_t made = no_segment;
    int memories, streams;
    if (!c->fail) return;
    memories = c->live(LIVE_MEMORIES), streams = c->live(LIVE_STREAMS);
    c->fail(FAULT_INIT, 1);
    CHECK(create(&kind, &args, 0) == GASNET_ERR_RESOURCE);
    OK(create(&kind, &args, 0));
    c->fail(FAULT_ALLOC, 1);
    CHECK(segment_of(&made, NULL, 1000, kind, 0) == GASNET_ERR_RESOURCE);
    OK(segment_of(&made, NULL, 1000, kind, 0));
    gex_Segment_Destroy(made, 0);
    gex_MK_Destroy(kind, 0); /* the failed segment does not count */
    CHECK(c->live(LIVE_MEMORIES) == memories && c->live(LIVE_STREAMS) == streams);
}

/* The thread's current context or device is the client's. */
static void current(device_class *c) {
    gex_MK_t kind;
    gex_Segment_t made;
    void *context = NULL;
    int device = 0, last = c->devices - 1;
    if (c->number == GEX_MK_CLASS_CUDA_UVA) {
        cuda_enter(c, last);
        kind = make_kind(c, 0);
        OK(gex_Segment_Create(&made, client, NULL, 4096, kind, 0));
        REQUIRE(CALL(c, int, "cuCtxGetCurrent", (void **), &context) == 0);
        CHECK(context == cuda_context[last]);
        REQUIRE(CALL(c, int, "cuPointerGetAttribute", (void *, int, uint64_t), &context, 1,
                     (uintptr_t)gex_Segment_QueryAddr(made)) == 0);
        CHECK(context == cuda_context[0]);
        gex_Segment_Destroy(made, 0);
        gex_MK_Destroy(kind, 0);
        REQUIRE(CALL(c, int, "cuCtxGetCurrent", (void **), &context) == 0);
        CHECK(context == cuda_context[last]);
        cuda_leave(c);
    } else if (c->number == GEX_MK_CLASS_HIP) {
        REQUIRE(CALL(c, int, "hipSetDevice", (int), last) == 0);
        kind = make_kind(c, 0);
        OK(gex_Segment_Create(&made, client, NULL, 4096, kind, 0));
        gex_Segment_Destroy(made, 0);
        gex_MK_Destroy(kind, 0);
        REQUIRE(CALL(c, int, "hipGetDevice", (int *), &device) == 0);
        CHECK(device == last);
    }
}

int main(int argc, char **argv) {
    test_init("mk_kinds", &argc, &argv);
    devices_required();
    gex_System_SetVerboseErrors(0);
    arguments();
    for (int i = 0; i < CLASSES; i++) {
        device_class *c = &classes[i];
        if (c->devices == 0) continue;
        class_arguments(c);
        segments(c);
        many(c);
        failures(c);
        current(c);
        CHECK(!c->live || c->live(LIVE_MEMORIES) == 0);
    }
    /* a rank may have nothing to publish */
    OK(gex_EP_PublishBoundSegment(tm, NULL, 0, 0));
    return test_finish();
}
