/* Memory of GPUs, as segments of endpoints of their own. The vendors' libraries are opened, so that
 * no header of theirs is needed. */
#include "selftest.h"

#include <gasnet_mk.h>

#include <dlfcn.h>
#include <string.h>

enum { DEVICE_BYTES = 4 << 20, MOST_COPY = 1 << 20 };

struct vendor {
    const char *name, *libraries[4];
    gex_MK_Class_t class;
    void *handle;
    int (*start)(void);
    int (*allocate)(int device, void **at);
};
static struct vendor *vendor;
static int device;
static gex_EP_t device_ep;
static char *own_memory; /* of the device */

#define CALL(name, types, ...) (((int(*) types)dlsym(vendor->handle, name))(__VA_ARGS__))

static int cuda_start(void) {
    int count = 0;
    if (CALL("cuInit", (unsigned), 0) != 0 || CALL("cuDeviceGetCount", (int *), &count) != 0) return 0;
    return count;
}
static int cuda_allocate(int number, void **at) {
    void *context;
    uint64_t address = 0;
    if (CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, number) != 0) return 1;
    if (CALL("cuCtxPushCurrent_v2", (void *), context) != 0) return 1;
    if (CALL("cuMemAlloc_v2", (uint64_t *, size_t), &address, DEVICE_BYTES) != 0) return 1;
    *at = (void *)(uintptr_t)address;
    return CALL("cuCtxPopCurrent_v2", (void **), &context);
}
static int hip_start(void) {
    int count = 0;
    return CALL("hipInit", (unsigned), 0) != 0 || CALL("hipGetDeviceCount", (int *), &count) != 0 ? 0 : count;
}
static int hip_allocate(int number, void **at) {
    return CALL("hipSetDevice", (int), number) != 0 || CALL("hipMalloc", (void **, size_t), at, DEVICE_BYTES) != 0;
}
static struct vendor vendors[2] = {
    {"CUDA", {"libcuda.so.1"}, GEX_MK_CLASS_CUDA_UVA, NULL, cuda_start, cuda_allocate},
    {"HIP",
     {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
     GEX_MK_CLASS_HIP,
     NULL,
     hip_start,
     hip_allocate},
};

/* Opens the first library that has a device. */
static const char *no_device(const struct test *test) {
    size_t v, l;
    (void)test;
    for (v = 0; v < 2; v++) {
        int count;
        vendor = &vendors[v];
        for (l = 0; l < 4 && vendor->handle == NULL && vendor->libraries[l] != NULL; l++)
            vendor->handle = dlopen(vendor->libraries[l], RTLD_NOW | RTLD_LOCAL);
        if (vendor->handle == NULL) continue;
        count = vendor->start();
        if (count <= 0) continue;
        device = (int)me % count;
        return NULL;
    }
    return "no device of CUDA or HIP on every host (Level Zero is not tested)";
}

/* A segment of device memory, in an endpoint that all ranks can reach. */
static int open_device(void) {
    gex_MK_Create_args_t args;
    gex_MK_t kind;
    gex_Segment_t segment;
    struct step s = {"segment in device memory", vendor->name, NULL, DEVICE_BYTES, 0, 0, me};
    uint64_t failed = 0;
    step(&s);
    memset(&args, 0, sizeof args);
    args.gex_class = vendor->class;
    if (vendor->class == GEX_MK_CLASS_CUDA_UVA) args.gex_args.gex_class_cuda_uva.gex_CUdevice = device;
    else args.gex_args.gex_class_hip.gex_hipDevice = device;
    if (vendor->allocate(device, (void **)&own_memory) != 0) failed = 1;
    else if (gex_MK_Create(&kind, client, &args, 0) != GASNET_OK) failed = 2;
    else if (gex_Segment_Create(&segment, client, own_memory, DEVICE_BYTES, kind, 0) != GASNET_OK) failed = 3;
    else if (gex_EP_Create(&device_ep, client, GEX_EP_CAPABILITY_RMA, 0) != GASNET_OK) failed = 4;
    else if (gex_EP_BindSegment(device_ep, segment, 0) != GASNET_OK) failed = 5;
    if (failed != 0) {
        static const char *const calls[] = {"allocation", "gex_MK_Create", "gex_Segment_Create", "gex_EP_Create",
                                            "gex_EP_BindSegment"};
        fail(&s, "%s of device %d failed", calls[failed - 1], device);
    }
    add_all(&failed, 1);
    if (failed != 0) return 0;
    waiting("gex_EP_PublishBoundSegment", 0);
    if (gex_EP_PublishBoundSegment(tm, &device_ep, 1, 0) != GASNET_OK) fail(&s, "gex_EP_PublishBoundSegment failed");
    return 1;
}

/* From private memory to the peer's device, from there to the own device, and back. */
static void copies(const struct test *test, gex_Rank_t peer, double until) {
    gex_EP_Index_t index = gex_EP_QueryIndex(device_ep);
    gex_TM_t to_device = gex_TM_Pair(ep, index), between = gex_TM_Pair(device_ep, index);
    gex_TM_t home = gex_TM_Pair(ep, index);
    void *theirs;
    size_t turn;
    (void)test;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(to_device, peer, &theirs, NULL, NULL, 0));
    for (turn = 0; turn < plan_count() * 4 && now() < until; turn++) {
        struct size size = plan_size(turn, MOST_COPY);
        unsigned align = plan_alignment(turn);
        uint64_t seed = next_seed();
        size_t bytes = size.bytes, offset = align / LINE;
        char *host = memory_of(turn % 2 ? SEGMENT : HEAP) + align % LINE;
        struct step s = {"put to device, get between devices, get from device",
                         vendor->name,
                         size.class,
                         bytes,
                         align % LINE,
                         align / LINE,
                         peer};
        struct finding found = {0, 0, 0, 0};
        step(&s);
        fill(host, bytes, seed, 0);
        gex_RMA_PutBlocking(to_device, peer, (char *)theirs + offset, host, bytes, 0);
        gex_RMA_GetBlocking(between, own_memory + DEVICE_BYTES / 2, peer, (char *)theirs + offset, bytes, 0);
        memset(host, 0, bytes);
        gex_RMA_GetBlocking(home, host, me, own_memory + DEVICE_BYTES / 2, bytes, 0);
        check(&found, host, bytes, seed, 0);
        judge(&s, found);
    }
    end_turns(turn, plan_count());
}

static void run(const struct test *test) {
    if (open_device()) in_turns(test, copies, test_ends());
}

const struct test device_tests[] = {{"device", "puts and gets of device memory (CUDA or HIP)", 1, 0, run, no_device},
                                    {NULL, NULL, 0, 0, NULL, NULL}};
