// ze.c: the Level Zero functions that libgasnet and its tests use, over standin.c. Built as
// libze_loader.so.1. A command list reaches memory of its own device and host memory that its
// context allocated, nothing else; two threads in one list at once are an error.
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned ze_result_t;

enum {
    SUCCESS = 0,
    OUT_OF_DEVICE_MEMORY = 0x70000003,
    UNINITIALIZED = 0x78000001,
    INVALID_ARGUMENT = 0x78000004,
    NULL_HANDLE = 0x78000005
};
enum {
    QUEUE_DESC = 0xe,
    DEVICE_ALLOC_DESC = 0x15,
    HOST_ALLOC_DESC = 0x16,
    ALLOC_PROPERTIES = 0x17,
    EXPORT_DESC = 0x18,
    EXPORT_FD = 0x1a,
    EXTERNAL_PROPERTIES = 0xc,
    DMA_BUF = 2,
    CONTEXT_DESC = 0xd,
    SYNCHRONOUS = 1
};

struct device {
    int number;
};
struct context {
    int live;
};
struct list {
    struct context *context;
    int device, busy;
};
struct host {
    char *base;
    size_t bytes;
    struct context *context;
    struct host *next;
};
struct head { // how every descriptor and property begins
    int structure;
    const void *next;
};
struct queue {
    struct head head;
    uint32_t ordinal, index, flags;
    int mode, priority;
};
struct properties {
    struct head head;
    int kind;
    uint64_t id, page_bytes;
};
struct export { // ze_external_memory_export_desc_t, and with the descriptor ze_external_memory_export_fd_t
    struct head head;
    uint32_t flags;
    int fd;
};
struct external {
    struct head head;
    uint32_t allocation_imports, allocation_exports, image_imports, image_exports;
};
struct device_properties {
    struct head head;
    int kind;
};

static int initialised, driver;
static struct device all[STANDIN_MOST_DEVICES];
static struct host *hosts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_device(const struct device *device) { return device >= all && device < all + standin_devices(); }

ze_result_t zeInit(uint32_t flags) {
    int i;
    if (flags > 1) return INVALID_ARGUMENT;
    if (standin_faulty(STANDIN_INIT) || standin_devices() == 0) return UNINITIALIZED;
    for (i = 0; i < STANDIN_MOST_DEVICES; i++) all[i].number = i;
    initialised = 1;
    return SUCCESS;
}
ze_result_t zeDriverGet(uint32_t *count, void **drivers) {
    if (!initialised) return UNINITIALIZED;
    if (*count == 0 || *count > 1) *count = 1;
    if (drivers) drivers[0] = &driver;
    return SUCCESS;
}
ze_result_t zeDeviceGet(void *of, uint32_t *count, void **devices) {
    uint32_t i, most = (uint32_t)standin_devices();
    if (!initialised) return UNINITIALIZED;
    if (of != &driver) return NULL_HANDLE;
    if (*count == 0 || *count > most) *count = most;
    for (i = 0; devices && i < *count; i++) devices[i] = &all[i];
    return SUCCESS;
}
ze_result_t zeDeviceGetProperties(void *device, struct device_properties *about) {
    if (!is_device(device)) return NULL_HANDLE;
    about->kind = 1;
    return SUCCESS;
}
ze_result_t zeDeviceGetExternalMemoryProperties(void *device, struct external *about) {
    if (!is_device(device)) return NULL_HANDLE;
    if (about->head.structure != EXTERNAL_PROPERTIES) return INVALID_ARGUMENT;
    about->allocation_exports = DMA_BUF;
    return SUCCESS;
}
ze_result_t zeContextCreate(void *of, const struct head *about, void **context) {
    struct context *made;
    if (of != &driver) return NULL_HANDLE;
    if (about->structure != CONTEXT_DESC || !(made = malloc(sizeof *made))) return INVALID_ARGUMENT;
    made->live = 1;
    standin_count_more(STANDIN_CONTEXTS, 1);
    *context = made;
    return SUCCESS;
}
ze_result_t zeContextDestroy(void *context) {
    if (!context) return NULL_HANDLE;
    free(context);
    standin_count_more(STANDIN_CONTEXTS, -1);
    return SUCCESS;
}

ze_result_t zeMemAllocDevice(void *context, const struct head *about, size_t bytes, size_t alignment, void *device,
                             void **address) {
    const struct export *export = about->next;
    if (!context || !is_device(device)) return NULL_HANDLE;
    if (about->structure != DEVICE_ALLOC_DESC || (alignment & (alignment - 1)) != 0) return INVALID_ARGUMENT;
    if (export && (export->head.structure != EXPORT_DESC || export->flags != DMA_BUF)) return INVALID_ARGUMENT;
    *address = (void *)standin_alloc(((struct device *)device)->number, bytes);
    if (*address && export) standin_mark((uintptr_t)*address);
    return *address ? SUCCESS : OUT_OF_DEVICE_MEMORY;
}
ze_result_t zeMemAllocHost(void *context, const struct head *about, size_t bytes, size_t alignment, void **address) {
    struct host *host = malloc(sizeof *host);
    if (!context || !host) return NULL_HANDLE;
    if (about->structure != HOST_ALLOC_DESC || posix_memalign(address, alignment, bytes) != 0) return INVALID_ARGUMENT;
    *host = (struct host){*address, bytes, context, NULL};
    pthread_mutex_lock(&lock);
    host->next = hosts;
    hosts = host;
    pthread_mutex_unlock(&lock);
    standin_count_more(STANDIN_MEMORIES, 1);
    return SUCCESS;
}
ze_result_t zeMemFree(void *context, void *address) {
    struct host **place, *host;
    if (!context) return NULL_HANDLE;
    pthread_mutex_lock(&lock);
    for (place = &hosts; *place && (*place)->base != address; place = &(*place)->next) continue;
    host = *place;
    if (host) *place = host->next;
    pthread_mutex_unlock(&lock);
    if (!host) return standin_free((uintptr_t)address) == 0 ? SUCCESS : INVALID_ARGUMENT;
    free(host->base);
    free(host);
    standin_count_more(STANDIN_MEMORIES, -1);
    return SUCCESS;
}
// The descriptor of memory that was allocated for export stays the driver's.
ze_result_t zeMemGetAllocProperties(void *context, const void *address, struct properties *about, void **device) {
    int owner = standin_owner((uintptr_t)address, 1, NULL, NULL);
    struct export *export = (struct export *)about->head.next;
    uint64_t offset;
    if (!context) return NULL_HANDLE;
    if (about->head.structure != ALLOC_PROPERTIES) return INVALID_ARGUMENT;
    about->kind = owner < 0 ? 0 : 2;
    if (device && owner >= 0) *device = &all[owner];
    if (!export) return SUCCESS;
    if (export->head.structure != EXPORT_FD || export->flags != DMA_BUF || !standin_is_marked((uintptr_t)address))
        return INVALID_ARGUMENT;
    export->fd = standin_export(owner, (uintptr_t)address, 1, &offset);
    return export->fd < 0 ? INVALID_ARGUMENT : SUCCESS;
}
ze_result_t zeMemGetAddressRange(void *context, const void *address, void **base, size_t *length) {
    uintptr_t start = 0;
    if (!context) return NULL_HANDLE;
    if (standin_owner((uintptr_t)address, 1, &start, length) < 0) return INVALID_ARGUMENT;
    *base = (void *)start;
    return SUCCESS;
}

ze_result_t zeCommandListCreateImmediate(void *context, void *device, const struct queue *about, void **made) {
    struct list *list = malloc(sizeof *list);
    if (!context || !is_device(device) || !list) return NULL_HANDLE;
    if (about->head.structure != QUEUE_DESC || about->mode != SYNCHRONOUS) return INVALID_ARGUMENT;
    *list = (struct list){context, ((struct device *)device)->number, 0};
    standin_count_more(STANDIN_STREAMS, 1);
    *made = list;
    return SUCCESS;
}
ze_result_t zeCommandListDestroy(void *list) {
    if (!list) return NULL_HANDLE;
    free(list);
    standin_count_more(STANDIN_STREAMS, -1);
    return SUCCESS;
}

// The device of an end of a copy, -1 for host memory of the context, -2 for what the list cannot
// reach.
static int end(const struct list *list, const void *address, size_t bytes) {
    int device = standin_owner((uintptr_t)address, bytes, NULL, NULL), found = -2;
    const struct host *host;
    if (device >= 0) return device == list->device ? device : -2;
    pthread_mutex_lock(&lock);
    for (host = hosts; host; host = host->next) {
        size_t offset = (size_t)((const char *)address - host->base);
        if (host->context == list->context && (const char *)address >= host->base && offset < host->bytes &&
            bytes <= host->bytes - offset)
            found = -1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
ze_result_t zeCommandListAppendMemoryCopy(void *of, void *to, const void *from, size_t bytes, void *signal,
                                          uint32_t count, void **events) {
    struct list *list = of;
    int to_device, from_device, failed;
    if (!list) return NULL_HANDLE;
    if (signal || count != 0 || events) return INVALID_ARGUMENT;
    to_device = end(list, to, bytes);
    from_device = end(list, from, bytes);
    if (to_device == -2 || from_device == -2) return INVALID_ARGUMENT;
    if (__atomic_exchange_n(&list->busy, 1, __ATOMIC_ACQ_REL)) return INVALID_ARGUMENT;
    failed = standin_copy(to_device, (uintptr_t)to, from_device, (uintptr_t)from, bytes);
    __atomic_store_n(&list->busy, 0, __ATOMIC_RELEASE);
    return failed ? INVALID_ARGUMENT : SUCCESS;
}

// For tests, beyond the interface: a copy between any device's memory and any host memory.
ze_result_t standin_ze_copy(void *to, const void *from, size_t bytes) {
    int to_device = standin_owner((uintptr_t)to, bytes, NULL, NULL),
        from_device = standin_owner((uintptr_t)from, bytes, NULL, NULL);
    return bytes == 0 || standin_copy(to_device, (uintptr_t)to, from_device, (uintptr_t)from, bytes) == 0
               ? SUCCESS
               : INVALID_ARGUMENT;
}
