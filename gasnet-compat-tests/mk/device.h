/* The vendors' device libraries for tests of memory kinds, opened as in libgasnet, so that no
 * vendor header is needed. A class without library or device is omitted; a program without any is
 * skipped. The stand-ins (emulators/devices) provide all classes. */
#ifndef COMPAT_TESTS_DEVICE_H
#define COMPAT_TESTS_DEVICE_H

#include "check.h"

#include <dlfcn.h>
#include <gasnet_coll.h>
#include <gasnet_mk.h>

/* Faults that the stand-ins inject, and objects that they count: as in
 * emulators/devices/standin.h. */
enum { FAULT_ALLOC, FAULT_COPY, FAULT_SYNC, FAULT_INIT, FAULT_EXPORT };
enum { LIVE_MEMORIES, LIVE_STREAMS, LIVE_CONTEXTS };

typedef struct device_class device_class;
struct device_class {
    const char *name;
    gex_MK_Class_t number;
    const char *variable, *library[4];
    void *handle;
    int devices;
    void (*fail)(int what, int after); /* null with a real library */
    int (*live)(int what);
    int (*start)(device_class *self); /* the number of devices */
    void *(*alloc)(device_class *self, int device, size_t bytes);
    void (*release)(device_class *self, void *address);
    int (*write)(device_class *self, void *to, const void *from, size_t bytes);
    int (*read)(device_class *self, void *to, const void *from, size_t bytes);
};

static void *device_symbol(device_class *self, const char *name) {
    void *symbol = dlsym(self->handle, name);
    if (!symbol) {
        fprintf(stderr, "FAIL %s has no %s\n", self->name, name);
        exit(1);
    }
    return symbol;
}
/* Calls function `name`, whose parameters have the types `types`. */
#define CALL(self, result, name, types, ...) ((result(*) types)device_symbol(self, name))(__VA_ARGS__)

/* ---- CUDA ---- */

static void *cuda_context[8];

TEST_UNUSED static void cuda_enter(device_class *self, int device) {
    REQUIRE(CALL(self, int, "cuCtxPushCurrent_v2", (void *), cuda_context[device]) == 0);
}
TEST_UNUSED static void cuda_leave(device_class *self) {
    void *context;
    REQUIRE(CALL(self, int, "cuCtxPopCurrent_v2", (void **), &context) == 0);
}
/* In the context of the device that has the memory. */
static void cuda_enter_owner(device_class *self, const void *address) {
    int device = 0;
    cuda_enter(self, 0);
    (void)CALL(self, int, "cuPointerGetAttribute", (void *, int, uint64_t), &device, 9, (uintptr_t)address);
    cuda_leave(self);
    cuda_enter(self, device);
}
static int cuda_start(device_class *self) {
    int count = 0;
    if (CALL(self, int, "cuInit", (unsigned), 0) != 0 || CALL(self, int, "cuDeviceGetCount", (int *), &count) != 0)
        return 0;
    for (int i = 0; i < count && i < 8; i++)
        REQUIRE(CALL(self, int, "cuDevicePrimaryCtxRetain", (void **, int), &cuda_context[i], i) == 0);
    return count < 8 ? count : 8;
}
static void *cuda_alloc(device_class *self, int device, size_t bytes) {
    uint64_t address = 0;
    int result;
    cuda_enter(self, device);
    result = CALL(self, int, "cuMemAlloc_v2", (uint64_t *, size_t), &address, bytes);
    cuda_leave(self);
    return result == 0 ? (void *)(uintptr_t)address : NULL;
}
static void cuda_release(device_class *self, void *address) {
    cuda_enter_owner(self, address);
    CHECK(CALL(self, int, "cuMemFree_v2", (uint64_t), (uintptr_t)address) == 0);
    cuda_leave(self);
}
static int cuda_write(device_class *self, void *to, const void *from, size_t bytes) {
    int result;
    cuda_enter_owner(self, to);
    result = CALL(self, int, "cuMemcpyHtoD_v2", (uint64_t, const void *, size_t), (uintptr_t)to, from, bytes);
    /* Of memory that is not pinned, the copy itself may be under way at return. */
    if (result == 0) result = CALL(self, int, "cuStreamSynchronize", (void *), NULL);
    cuda_leave(self);
    return result;
}
static int cuda_read(device_class *self, void *to, const void *from, size_t bytes) {
    int result;
    cuda_enter_owner(self, from);
    result = CALL(self, int, "cuMemcpyDtoH_v2", (void *, uint64_t, size_t), to, (uintptr_t)from, bytes);
    cuda_leave(self);
    return result;
}

/* ---- HIP ---- */

static int hip_start(device_class *self) {
    int count = 0;
    if (CALL(self, int, "hipInit", (unsigned), 0) != 0 || CALL(self, int, "hipGetDeviceCount", (int *), &count) != 0)
        return 0;
    return count;
}
static void *hip_alloc(device_class *self, int device, size_t bytes) {
    void *address = NULL;
    int before = 0, result;
    REQUIRE(CALL(self, int, "hipGetDevice", (int *), &before) == 0);
    REQUIRE(CALL(self, int, "hipSetDevice", (int), device) == 0);
    result = CALL(self, int, "hipMalloc", (void **, size_t), &address, bytes);
    REQUIRE(CALL(self, int, "hipSetDevice", (int), before) == 0);
    return result == 0 ? address : NULL;
}
static void hip_release(device_class *self, void *address) {
    CHECK(CALL(self, int, "hipFree", (void *), address) == 0);
}
static int hip_write(device_class *self, void *to, const void *from, size_t bytes) {
    return CALL(self, int, "hipMemcpyHtoD", (void *, const void *, size_t), to, from, bytes);
}
static int hip_read(device_class *self, void *to, const void *from, size_t bytes) {
    return CALL(self, int, "hipMemcpyDtoH", (void *, const void *, size_t), to, from, bytes);
}

/* ---- Level Zero ---- */

static void *ze_devices[8], *ze_context, *ze_list[8];
struct ze_description {
    int structure;
    const void *next;
    uint32_t words[6];
};

static int ze_start(device_class *self) {
    struct ze_description context = {0xd, NULL, {0}}, queue = {0xe, NULL, {0, 0, 0, 1, 0, 0}};
    uint32_t drivers = 1, count = 0;
    void *driver = NULL;
    if (CALL(self, int, "zeInit", (uint32_t), 0) != 0) return 0;
    if (CALL(self, int, "zeDriverGet", (uint32_t *, void **), &drivers, &driver) != 0 || drivers == 0) return 0;
    if (CALL(self, int, "zeDeviceGet", (void *, uint32_t *, void **), driver, &count, NULL) != 0 || count == 0)
        return 0;
    if (count > 8) count = 8;
    REQUIRE(CALL(self, int, "zeDeviceGet", (void *, uint32_t *, void **), driver, &count, ze_devices) == 0);
    REQUIRE(CALL(self, int, "zeContextCreate", (void *, const void *, void **), driver, &context, &ze_context) == 0);
    for (uint32_t i = 0; i < count; i++)
        REQUIRE(CALL(self, int, "zeCommandListCreateImmediate", (void *, void *, const void *, void **), ze_context,
                     ze_devices[i], &queue, &ze_list[i]) == 0);
    return (int)count;
}
static void *ze_alloc(device_class *self, int device, size_t bytes) {
    struct ze_description about = {0x15, NULL, {0}};
    void *address = NULL;
    int result = CALL(self, int, "zeMemAllocDevice", (void *, const void *, size_t, size_t, void *, void **),
                      ze_context, &about, bytes, 64, ze_devices[device], &address);
    return result == 0 ? address : NULL;
}
static void ze_release(device_class *self, void *address) {
    CHECK(CALL(self, int, "zeMemFree", (void *, void *), ze_context, address) == 0);
}
/* Through host memory of the context, on the list of the device that has the memory. */
static int ze_copy(device_class *self, void *to, const void *from, size_t bytes, int writes) {
    struct ze_description about = {0x16, NULL, {0}};
    struct {
        int structure;
        void *next;
        int kind;
        uint64_t id, page;
    } properties = {0x17, NULL, 0, 0, 0};
    void *host = NULL, *device = NULL;
    int i, result;
    if (bytes == 0) return 0;
    if (CALL(self, int, "zeMemGetAllocProperties", (void *, const void *, void *, void **), ze_context,
             writes ? to : from, &properties, &device))
        return -1;
    for (i = 0; i < 7 && ze_devices[i] != device; i++) continue;
    if (CALL(self, int, "zeMemAllocHost", (void *, const void *, size_t, size_t, void **), ze_context, &about, bytes,
             64, &host))
        return -1;
    if (writes) memcpy(host, from, bytes);
    result = CALL(self, int, "zeCommandListAppendMemoryCopy",
                  (void *, void *, const void *, size_t, void *, uint32_t, void **), ze_list[i], writes ? to : host,
                  writes ? (const void *)host : from, bytes, NULL, 0, NULL);
    if (!writes) memcpy(to, host, bytes);
    ze_release(self, host);
    return result;
}
static int ze_write(device_class *self, void *to, const void *from, size_t bytes) {
    return ze_copy(self, to, from, bytes, 1);
}
static int ze_read(device_class *self, void *to, const void *from, size_t bytes) {
    return ze_copy(self, to, from, bytes, 0);
}

/* ---- All ---- */

enum { CLASSES = 3 };
static device_class classes[CLASSES] = {
    {"CUDA",
     GEX_MK_CLASS_CUDA_UVA,
     "GASNET_CUDA_LIBRARY",
     {"libcuda.so.1"},
     NULL,
     0,
     NULL,
     NULL,
     cuda_start,
     cuda_alloc,
     cuda_release,
     cuda_write,
     cuda_read},
    {"HIP",
     GEX_MK_CLASS_HIP,
     "GASNET_HIP_LIBRARY",
     {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
     NULL,
     0,
     NULL,
     NULL,
     hip_start,
     hip_alloc,
     hip_release,
     hip_write,
     hip_read},
    {"Level Zero",
     GEX_MK_CLASS_ZE,
     "GASNET_ZE_LIBRARY",
     {"libze_loader.so.1"},
     NULL,
     0,
     NULL,
     NULL,
     ze_start,
     ze_alloc,
     ze_release,
     ze_write,
     ze_read},
};

/* Opens what there is; the number of classes with a device. After gex_Client_Init: a forked process
 * cannot use what its parent began. */
TEST_UNUSED static int devices_open(void) {
    int found = 0;
    for (int i = 0; i < CLASSES; i++) {
        device_class *c = &classes[i];
        for (int n = 0; n < 4 && !c->handle && c->library[n]; n++)
            c->handle = dlopen(c->library[n], RTLD_NOW | RTLD_LOCAL);
        if (!c->handle) continue;
        *(void **)&c->fail = dlsym(c->handle, "standin_fail");
        *(void **)&c->live = dlsym(c->handle, "standin_live");
        c->devices = c->start(c);
        found += c->devices > 0;
    }
    return found;
}

/* Every rank calls it: ends the test where no rank has a device. */
TEST_UNUSED static void devices_required(void) {
    int64_t mine = devices_open(), least = 0;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &least, &mine, GEX_DT_I64, 8, 1, GEX_OP_MIN, NULL, NULL, 0));
    if (least == 0) test_skip("no device: none of libcuda.so.1, libamdhip64.so and libze_loader.so.1 has one here");
}

TEST_UNUSED static gex_MK_Create_args_t kind_args(const device_class *c, int device) {
    gex_MK_Create_args_t args;
    memset(&args, 0, sizeof args);
    args.gex_class = c->number;
    switch (c->number) {
        case GEX_MK_CLASS_CUDA_UVA: args.gex_args.gex_class_cuda_uva.gex_CUdevice = device; break;
        case GEX_MK_CLASS_HIP: args.gex_args.gex_class_hip.gex_hipDevice = device; break;
        default:
            args.gex_args.gex_class_ze.gex_zeDevice = ze_devices[device];
            args.gex_args.gex_class_ze.gex_zeContext = ze_context;
    }
    return args;
}

TEST_UNUSED static gex_MK_t make_kind(const device_class *c, int device) {
    gex_MK_Create_args_t args = kind_args(c, device);
    gex_MK_t kind = GEX_MK_INVALID;
    OK(gex_MK_Create(&kind, client, &args, 0));
    CHECK(kind != GEX_MK_INVALID && kind != GEX_MK_HOST);
    return kind;
}

/* ---- Endpoints on the host and on devices ---- */

enum { MOST_PLACES = 10 };

/* An endpoint of this rank and its segment. */
typedef struct {
    device_class *device; /* null: host memory */
    int number, client_memory;
    gex_MK_t kind;
    gex_Segment_t segment;
    gex_EP_t ep;
    gex_EP_Index_t index;
    char *base;
    char *theirs[64]; /* of the same endpoint of each rank */
} place;

static place places[MOST_PLACES];
static int place_count;
static size_t place_bytes;

TEST_UNUSED static void place_write(place *p, char *to, const void *from, size_t bytes) {
    if (!p->device) memcpy(to, from, bytes);
    else CHECK(p->device->write(p->device, to, from, bytes) == 0);
}
TEST_UNUSED static void place_read(place *p, void *to, const char *from, size_t bytes) {
    if (!p->device) memcpy(to, from, bytes);
    else CHECK(p->device->read(p->device, to, from, bytes) == 0);
}
#define CHECK_PLACE(p, at, bytes, seed)             \
    do {                                            \
        char *check_ = (char *)malloc((bytes) + 1); \
        place_read(p, check_, at, bytes);           \
        CHECK_PATTERN(check_, bytes, seed);         \
        free(check_);                               \
    } while (0)
TEST_UNUSED static void place_fill(place *p, char *at, size_t bytes, uint64_t seed) {
    char *data = (char *)malloc(bytes + 1);
    pattern_fill(data, bytes, seed);
    place_write(p, at, data, bytes);
    free(data);
}

TEST_UNUSED static void add_place(device_class *c, int number, int client_memory, size_t bytes) {
    place *p = &places[place_count++];
    REQUIRE(place_count <= MOST_PLACES);
    memset(p, 0, sizeof *p);
    p->device = c;
    p->number = number;
    p->client_memory = client_memory;
    p->kind = c ? make_kind(c, number) : GEX_MK_HOST;
    if (client_memory) {
        /* zeroed: valgrind does not see what other processes write */
        p->base = (char *)(c ? c->alloc(c, number, bytes) : calloc(1, bytes));
        REQUIRE(p->base != NULL);
    }
    OK(gex_Segment_Create(&p->segment, client, p->base, bytes, p->kind, 0));
    CHECK(!p->base || gex_Segment_QueryAddr(p->segment) == p->base);
    p->base = (char *)gex_Segment_QueryAddr(p->segment);
    CHECK(gex_Segment_QuerySize(p->segment) == bytes || (!c && gex_Segment_QuerySize(p->segment) > bytes));
    OK(gex_EP_Create(&p->ep, client, GEX_EP_CAPABILITY_ALL, 0));
    p->index = gex_EP_QueryIndex(p->ep);
    OK(gex_EP_BindSegment(p->ep, p->segment, 0));
}

/* Place 0 is the primordial endpoint. The others, on every rank the same: host memory, and up to
 * two devices of each class that is here, with memory of the client's and of the library's.
 * Published. Collective. */
TEST_UNUSED static void make_places(size_t bytes) {
    gex_EP_t eps[MOST_PLACES];
    REQUIRE(np <= 64);
    PHASE("make places");
    place_bytes = bytes;
    test_attach(bytes);
    memset(&places[0], 0, sizeof places[0]);
    places[0].ep = ep;
    places[0].kind = GEX_MK_HOST;
    places[0].base = seg_of(me);
    for (gex_Rank_t r = 0; r < np; r++) places[0].theirs[r] = seg_of(r);
    place_count = 1;
    add_place(NULL, 0, 1, bytes);
    for (int i = 0; i < CLASSES; i++)
        for (int d = 0; d < classes[i].devices && d < 2; d++) add_place(&classes[i], d, d == 0, bytes);
    for (int i = 1; i < place_count; i++) eps[i] = places[i].ep;
    OK(gex_EP_PublishBoundSegment(tm, eps + 1, (size_t)place_count - 1, 0));
    for (int i = 1; i < place_count; i++) {
        for (gex_Rank_t r = 0; r < np; r++) {
            void *owner = NULL, *here = &here;
            uintptr_t length = 0;
            gex_Event_Wait(gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, places[i].index), r, &owner, &here, &length, 0));
            CHECK(length >= bytes && (r != me || owner == places[i].base));
            CHECK(!places[i].device || here == NULL);
            places[i].theirs[r] = (char *)owner;
        }
    }
}

/* `at` as an offset in the segment of a place's endpoint, whose memory begins at `base`: in
 * EVERYTHING that of a primordial one is all memory. */
TEST_UNUSED static void *place_offset(const place *p, const char *base, const char *at) {
#ifdef GASNET_SEGMENT_EVERYTHING
    if (p->index == 0) return (void *)(uintptr_t)at;
#endif
    return (void *)(uintptr_t)(at - base);
}

/* Collective; everybody is done with the places. */
TEST_UNUSED static void end_places(void) {
    PHASE("end places");
    barrier();
    for (int i = 1; i < place_count; i++) {
        place *p = &places[i];
        gex_Segment_Destroy(p->segment, 0);
        CHECK(gex_EP_QuerySegment(p->ep) == GEX_SEGMENT_INVALID);
        if (p->client_memory && p->device) p->device->release(p->device, p->base);
        if (p->client_memory && !p->device) free(p->base);
        if (p->device) gex_MK_Destroy(p->kind, 0);
    }
    for (int i = 0; i < CLASSES; i++) {
        if (!classes[i].live || classes[i].devices == 0) continue;
        CHECKF(classes[i].live(LIVE_MEMORIES) == 0, "%s: %d allocations are left", classes[i].name,
               classes[i].live(LIVE_MEMORIES));
    }
    place_count = 0;
}

TEST_UNUSED static const char *place_name(const place *p) {
    static char text[2][64];
    static int turn;
    char *to = text[turn ^= 1];
    if (!p->device) return p->index == 0 ? "primordial" : "host";
    snprintf(to, sizeof text[0], "%s %d", p->device->name, p->number);
    return to;
}

#endif
