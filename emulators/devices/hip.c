// hip.c: the HIP runtime's functions that libgasnet and its tests use, over standin.c. Built as
// libamdhip64.so. A stream works on its own device only, which must be the thread's current one.
#include "standin.h"

#include <unistd.h>

typedef int hipError_t;
typedef standin_stream *hipStream_t;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    ILLEGAL_ADDRESS = 700
};
enum { TO_DEVICE = 1, TO_HOST = 2, WITHIN = 3, POINTER_DEVICE_ORDINAL = 9 };

static __thread int current;

static const struct {
    hipError_t code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {NOT_INITIALIZED, "hipErrorNotInitialized", "initialization error"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
};

static const char *describe(hipError_t code, int name) {
    size_t i;
    for (i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return name ? errors[i].name : errors[i].text;
    return name ? "hipErrorUnknown" : "unknown error";
}
const char *hipGetErrorName(hipError_t code) { return describe(code, 1); }
const char *hipGetErrorString(hipError_t code) { return describe(code, 0); }

hipError_t hipInit(unsigned flags) {
    if (flags != 0) return INVALID_VALUE;
    if (standin_faulty(STANDIN_INIT)) return NOT_INITIALIZED;
    return standin_devices() == 0 ? NO_DEVICE : SUCCESS;
}
hipError_t hipGetDeviceCount(int *count) {
    *count = standin_devices();
    return *count == 0 ? NO_DEVICE : SUCCESS;
}
hipError_t hipGetDevice(int *device) {
    *device = current;
    return SUCCESS;
}
hipError_t hipSetDevice(int device) {
    if (device < 0 || device >= standin_devices()) return INVALID_DEVICE;
    current = device;
    return SUCCESS;
}

hipError_t hipMalloc(void **address, size_t bytes) {
    *address = (void *)standin_alloc(current, bytes);
    return *address || bytes == 0 ? SUCCESS : OUT_OF_MEMORY;
}
hipError_t hipFree(void *address) {
    return !address || standin_free((uintptr_t)address) == 0 ? SUCCESS : INVALID_VALUE;
}
hipError_t hipPointerGetAttribute(void *value, int attribute, void *address) {
    int device = standin_owner((uintptr_t)address, 1, NULL, NULL);
    if (device < 0 || attribute != POINTER_DEVICE_ORDINAL) return INVALID_VALUE;
    *(int *)value = device;
    return SUCCESS;
}

// Of libhsa-runtime64. The descriptor is not close-on-exec.
int hsa_amd_portable_export_dmabuf(const void *address, size_t bytes, int *dmabuf, uint64_t *offset) {
    int device = standin_owner((uintptr_t)address, bytes, NULL, NULL);
    int fd = device < 0 || bytes == 0 ? -1 : standin_export(device, (uintptr_t)address, bytes, offset);
    *dmabuf = fd < 0 ? fd : dup(fd);
    return *dmabuf < 0 ? 0x1001 : SUCCESS; // HSA_STATUS_ERROR_INVALID_ARGUMENT
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) {
    if (flags > 1) return INVALID_VALUE;
    *stream = standin_stream_create(current);
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
    if (!stream) return INVALID_HANDLE;
    standin_stream_destroy(stream);
    return SUCCESS;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
    if (!stream) return INVALID_HANDLE;
    return standin_synchronize(stream) == 0 ? SUCCESS : ILLEGAL_ADDRESS;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, hipStream_t stream) {
    int to_device = kind == TO_HOST ? -1 : current, from_device = kind == TO_DEVICE ? -1 : current;
    if (!stream || standin_stream_device(stream) != current) return INVALID_HANDLE;
    if (kind < TO_DEVICE || kind > WITHIN) return INVALID_VALUE;
    return standin_copy_later(stream, to_device, (uintptr_t)to, from_device, (uintptr_t)from, bytes) == 0
               ? SUCCESS
               : INVALID_VALUE;
}
hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                              hipStream_t stream) {
    if (!stream || standin_stream_device(stream) != current) return INVALID_HANDLE;
    return standin_copy_later(stream, to_device, (uintptr_t)to, from_device, (uintptr_t)from, bytes) == 0
               ? SUCCESS
               : INVALID_VALUE;
}

// The synchronous forms are for tests: any device's memory.
hipError_t hipMemcpyHtoD(void *to, const void *from, size_t bytes) {
    int device = standin_owner((uintptr_t)to, bytes, NULL, NULL);
    if (bytes == 0) return SUCCESS;
    return device >= 0 && standin_copy(device, (uintptr_t)to, -1, (uintptr_t)from, bytes) == 0 ? SUCCESS
                                                                                               : INVALID_VALUE;
}
hipError_t hipMemcpyDtoH(void *to, void *from, size_t bytes) {
    int device = standin_owner((uintptr_t)from, bytes, NULL, NULL);
    if (bytes == 0) return SUCCESS;
    return device >= 0 && standin_copy(-1, (uintptr_t)to, device, (uintptr_t)from, bytes) == 0 ? SUCCESS
                                                                                               : INVALID_VALUE;
}
