// cuda.c: the CUDA driver's functions that libgasnet and its tests use, over standin.c. Built as
// libcuda.so.1. Strict where the driver is: a call needs a current context, and a stream works in
// its own context only.
#include "standin.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef standin_stream *CUstream;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719
};
enum {
    ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
    RANGE_HANDLE_DMA_BUF_FD = 1,
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE_ORDINAL = 9,
    DEEPEST = 64
};

struct context {
    int device, retained;
};

static struct context primary[STANDIN_MOST_DEVICES];
static int initialised;
static __thread CUcontext stack[DEEPEST];
static __thread int depth;

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

static CUresult describe(CUresult code, const char **text, int name) {
    size_t i;
    for (i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    }
    *text = NULL;
    return INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult code, const char **text) { return describe(code, text, 1); }
CUresult cuGetErrorString(CUresult code, const char **text) { return describe(code, text, 0); }

static CUcontext current(void) { return depth > 0 ? stack[depth - 1] : NULL; }

CUresult cuInit(unsigned flags) {
    if (flags != 0) return INVALID_VALUE;
    if (standin_faulty(STANDIN_INIT)) return NOT_INITIALIZED;
    if (standin_devices() == 0) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    if (!initialised) return NOT_INITIALIZED;
    *count = standin_devices();
    return SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (!initialised) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= standin_devices()) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    if (!initialised) return NOT_INITIALIZED;
    if (device < 0 || device >= standin_devices()) return INVALID_DEVICE;
    if (attribute != ATTRIBUTE_UNIFIED_ADDRESSING && attribute != ATTRIBUTE_DMA_BUF_SUPPORTED) return INVALID_VALUE;
    *value = 1;
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!initialised) return NOT_INITIALIZED;
    if (device < 0 || device >= standin_devices()) return INVALID_DEVICE;
    primary[device].device = device;
    __atomic_add_fetch(&primary[device].retained, 1, __ATOMIC_SEQ_CST);
    standin_count_more(STANDIN_CONTEXTS, 1);
    *context = &primary[device];
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (device < 0 || device >= standin_devices()) return INVALID_DEVICE;
    if (__atomic_load_n(&primary[device].retained, __ATOMIC_SEQ_CST) == 0) return INVALID_CONTEXT;
    __atomic_sub_fetch(&primary[device].retained, 1, __ATOMIC_SEQ_CST);
    standin_count_more(STANDIN_CONTEXTS, -1);
    return SUCCESS;
}

// A context that somebody has retained.
static int valid(CUcontext context) {
    return context >= primary && context < primary + STANDIN_MOST_DEVICES &&
           __atomic_load_n(&context->retained, __ATOMIC_SEQ_CST) > 0;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
    if (!valid(context) || depth == DEEPEST) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (depth == 0) return INVALID_CONTEXT;
    *context = stack[--depth];
    return SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
    if (depth > 0) depth--;
    return context ? cuCtxPushCurrent_v2(context) : SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current();
    return SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
    if (!valid(current())) return INVALID_CONTEXT;
    *device = current()->device;
    return SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    if (!valid(current())) return INVALID_CONTEXT;
    if (bytes == 0) return INVALID_VALUE;
    *address = standin_alloc(current()->device, bytes);
    return *address ? SUCCESS : OUT_OF_MEMORY;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
    if (!valid(current())) return INVALID_CONTEXT;
    return standin_free((uintptr_t)address) == 0 ? SUCCESS : INVALID_VALUE;
}
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    int device = standin_owner((uintptr_t)address, 1, NULL, NULL);
    if (device < 0) return INVALID_VALUE;
    switch (attribute) {
        case POINTER_CONTEXT: *(CUcontext *)value = &primary[device]; return SUCCESS;
        case POINTER_MEMORY_TYPE: *(unsigned *)value = 2; return SUCCESS;
        case POINTER_DEVICE_ORDINAL: *(int *)value = device; return SUCCESS;
        default: return INVALID_VALUE;
    }
}

// Whole pages, of one allocation, from its beginning on: the buffer begins at `address`. The
// descriptor is not close-on-exec.
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes, int kind,
                                       unsigned long long flags) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = 0;
    uintptr_t base = 0;
    uint64_t offset;
    int fd;
    if (!valid(current())) return INVALID_CONTEXT;
    if (kind != RANGE_HANDLE_DMA_BUF_FD || flags != 0 || bytes == 0 || address % page != 0 || bytes % page != 0)
        return INVALID_VALUE;
    if (standin_owner((uintptr_t)address, 1, &base, &length) != current()->device || address != base ||
        bytes > (length + page - 1) / page * page)
        return INVALID_VALUE;
    fd = standin_export(current()->device, base, 1, &offset);
    fd = fd < 0 ? fd : dup(fd);
    if (fd < 0) return INVALID_VALUE;
    *(int *)handle = fd;
    return SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    if (!valid(current())) return INVALID_CONTEXT;
    if (flags > 1) return INVALID_VALUE;
    *stream = standin_stream_create(current()->device);
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
    if (!stream) return INVALID_HANDLE;
    standin_stream_destroy(stream);
    return SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
    if (!valid(current())) return INVALID_CONTEXT;
    if (!stream) return SUCCESS; // that of copies without a stream, which are complete at return
    return standin_synchronize(stream) == 0 ? SUCCESS : ILLEGAL_ADDRESS;
}

// The device of a stream that the current context may use, or an error below 0.
static int device_of(CUstream stream) {
    if (!valid(current())) return -INVALID_CONTEXT;
    if (!stream || standin_stream_device(stream) != current()->device) return -INVALID_HANDLE;
    return current()->device;
}
static CUresult later(CUstream stream, int to, uintptr_t to_address, int from, uintptr_t from_address, size_t bytes) {
    return standin_copy_later(stream, to, to_address, from, from_address, bytes) == 0 ? SUCCESS : INVALID_VALUE;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    int device = device_of(stream);
    return device < 0 ? -device : later(stream, device, (uintptr_t)to, -1, (uintptr_t)from, bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    int device = device_of(stream);
    return device < 0 ? -device : later(stream, -1, (uintptr_t)to, device, (uintptr_t)from, bytes);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    int device = device_of(stream);
    return device < 0 ? -device : later(stream, device, (uintptr_t)to, device, (uintptr_t)from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    int device = device_of(stream);
    if (device < 0) return -device;
    if (!valid(to_context) || !valid(from_context)) return INVALID_CONTEXT;
    return later(stream, to_context->device, (uintptr_t)to, from_context->device, (uintptr_t)from, bytes);
}

// The synchronous forms are for tests: any device's memory.
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    int device = standin_owner((uintptr_t)to, bytes, NULL, NULL);
    if (!valid(current())) return INVALID_CONTEXT;
    if (bytes == 0) return SUCCESS;
    return device >= 0 && standin_copy(device, (uintptr_t)to, -1, (uintptr_t)from, bytes) == 0 ? SUCCESS
                                                                                               : INVALID_VALUE;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    int device = standin_owner((uintptr_t)from, bytes, NULL, NULL);
    if (!valid(current())) return INVALID_CONTEXT;
    if (bytes == 0) return SUCCESS;
    return device >= 0 && standin_copy(-1, (uintptr_t)to, device, (uintptr_t)from, bytes) == 0 ? SUCCESS
                                                                                               : INVALID_VALUE;
}
