// standin.c: the shared core of the stand-ins. Device memory is a file without name whose pages are
// mapped nowhere but at addresses that nobody may read or write (PROT_NONE); copies use pread and
// pwrite, for which such an address at the host's side is an error, too.
#define _GNU_SOURCE 1
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    uintptr_t base;
    size_t bytes;
    int device, fd, marked;
    struct memory *next;
};

struct copy {
    uintptr_t to, from;
    int to_device, from_device;
    size_t bytes;
    struct copy *next;
};

struct standin_stream {
    int device;
    struct copy *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *memories;
static int faults[STANDIN_FAULTS], counts[STANDIN_COUNTS];

int standin_devices(void) {
    const char *text = getenv("STANDIN_DEVICES");
    int count = text ? atoi(text) : 2;
    return count < 0 ? 0 : count > STANDIN_MOST_DEVICES ? STANDIN_MOST_DEVICES : count;
}

void standin_count_more(enum standin_count what, int change) {
    __atomic_add_fetch(&counts[what], change, __ATOMIC_SEQ_CST);
}
int standin_live(int what) { return __atomic_load_n(&counts[what], __ATOMIC_SEQ_CST); }
void standin_fail(int what, int after) { __atomic_store_n(&faults[what], after, __ATOMIC_SEQ_CST); }
int standin_faulty(enum standin_fault what) {
    int left = __atomic_load_n(&faults[what], __ATOMIC_SEQ_CST);
    return left > 0 && __atomic_sub_fetch(&faults[what], 1, __ATOMIC_SEQ_CST) == 0;
}

uintptr_t standin_alloc(int device, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = (bytes + page - 1) / page * page;
    struct memory *memory;
    void *base;
    int fd;
    if (bytes == 0 || bytes > (size_t)1 << 40 || standin_faulty(STANDIN_ALLOC)) return 0;
    fd = memfd_create("device", MFD_CLOEXEC);
    if (fd < 0) return 0;
    base = ftruncate(fd, (off_t)length) == 0 ? mmap(NULL, length, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
    memory = malloc(sizeof *memory);
    if (base == MAP_FAILED || !memory) {
        close(fd);
        free(memory);
        return 0;
    }
    *memory = (struct memory){(uintptr_t)base, bytes, device, fd, 0, NULL};
    pthread_mutex_lock(&lock);
    memory->next = memories;
    memories = memory;
    pthread_mutex_unlock(&lock);
    standin_count_more(STANDIN_MEMORIES, 1);
    return memory->base;
}

int standin_free(uintptr_t address) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct memory **place, *memory;
    pthread_mutex_lock(&lock);
    for (place = &memories; *place && (*place)->base != address; place = &(*place)->next) continue;
    memory = *place;
    if (memory) *place = memory->next;
    pthread_mutex_unlock(&lock);
    if (!memory) return -1;
    munmap((void *)memory->base, (memory->bytes + page - 1) / page * page);
    close(memory->fd);
    free(memory);
    standin_count_more(STANDIN_MEMORIES, -1);
    return 0;
}

// The memory that has the range. Locked by the caller.
static struct memory *find(uintptr_t address, size_t bytes) {
    struct memory *memory;
    for (memory = memories; memory; memory = memory->next) {
        size_t offset = address - memory->base;
        if (address >= memory->base && offset < memory->bytes && bytes <= memory->bytes - offset) return memory;
    }
    return NULL;
}

int standin_owner(uintptr_t address, size_t bytes, uintptr_t *base, size_t *length) {
    struct memory *memory;
    int device = -1;
    pthread_mutex_lock(&lock);
    memory = find(address, bytes);
    if (memory) {
        device = memory->device;
        if (base) *base = memory->base;
        if (length) *length = memory->bytes;
    }
    pthread_mutex_unlock(&lock);
    return device;
}

// Descriptor and offset of device memory; -1 if the range is not memory of the device.
static int place(int device, uintptr_t address, size_t bytes, off_t *offset) {
    struct memory *memory;
    int fd = -1;
    pthread_mutex_lock(&lock);
    memory = find(address, bytes);
    if (memory && memory->device == device) {
        fd = memory->fd;
        *offset = (off_t)(address - memory->base);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

void standin_mark(uintptr_t address) {
    struct memory *memory;
    pthread_mutex_lock(&lock);
    memory = find(address, 1);
    if (memory) memory->marked = 1;
    pthread_mutex_unlock(&lock);
}
int standin_is_marked(uintptr_t address) {
    struct memory *memory;
    int marked;
    pthread_mutex_lock(&lock);
    memory = find(address, 1);
    marked = memory && memory->marked;
    pthread_mutex_unlock(&lock);
    return marked;
}

int standin_export(int device, uintptr_t address, size_t bytes, uint64_t *offset) {
    off_t at = 0;
    int fd = standin_faulty(STANDIN_EXPORT) ? -1 : place(device, address, bytes, &at);
    *offset = (uint64_t)at;
    return fd;
}

// Moves bytes between host memory and a descriptor. 0, or -1 where the host's side may not be
// touched.
static int move(int fd, off_t offset, char *host, size_t bytes, int write) {
    while (bytes > 0) {
        ssize_t n = write ? pwrite(fd, host, bytes, offset) : pread(fd, host, bytes, offset);
        if (n <= 0) return -1;
        host += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int standin_copy(int to, uintptr_t to_address, int from, uintptr_t from_address, size_t bytes) {
    static char stage[1 << 16];
    static pthread_mutex_t stage_lock = PTHREAD_MUTEX_INITIALIZER;
    off_t to_offset = 0, from_offset = 0;
    int to_fd = to < 0 ? -1 : place(to, to_address, bytes, &to_offset), result = 0;
    int from_fd = from < 0 ? -1 : place(from, from_address, bytes, &from_offset);
    if ((to >= 0 && to_fd < 0) || (from >= 0 && from_fd < 0) || (to < 0 && from < 0) || standin_faulty(STANDIN_COPY))
        return -1;
    if (from < 0) return move(to_fd, to_offset, (char *)from_address, bytes, 1);
    if (to < 0) return move(from_fd, from_offset, (char *)to_address, bytes, 0);
    pthread_mutex_lock(&stage_lock);
    while (bytes > 0 && result == 0) {
        size_t piece = bytes < sizeof stage ? bytes : sizeof stage;
        result = move(from_fd, from_offset, stage, piece, 0);
        if (result == 0) result = move(to_fd, to_offset, stage, piece, 1);
        from_offset += (off_t)piece;
        to_offset += (off_t)piece;
        bytes -= piece;
    }
    pthread_mutex_unlock(&stage_lock);
    return result;
}

standin_stream *standin_stream_create(int device) {
    standin_stream *stream = malloc(sizeof *stream);
    if (stream) {
        *stream = (standin_stream){device, NULL, &stream->first};
        standin_count_more(STANDIN_STREAMS, 1);
    }
    return stream;
}

void standin_stream_destroy(standin_stream *stream) {
    (void)standin_synchronize(stream);
    free(stream);
    standin_count_more(STANDIN_STREAMS, -1);
}

int standin_stream_device(const standin_stream *stream) { return stream->device; }

int standin_copy_later(standin_stream *stream, int to, uintptr_t to_address, int from, uintptr_t from_address,
                       size_t bytes) {
    struct copy *copy;
    if ((to >= 0 && standin_owner(to_address, bytes, NULL, NULL) != to) ||
        (from >= 0 && standin_owner(from_address, bytes, NULL, NULL) != from))
        return -1;
    copy = malloc(sizeof *copy);
    if (!copy) return -1;
    *copy = (struct copy){to_address, from_address, to, from, bytes, NULL};
    pthread_mutex_lock(&lock);
    *stream->last = copy;
    stream->last = &copy->next;
    pthread_mutex_unlock(&lock);
    return 0;
}

int standin_synchronize(standin_stream *stream) {
    int result = standin_faulty(STANDIN_SYNC) ? -1 : 0;
    // Copies of several threads run one after the other, each before its own thread's call returns.
    static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&running);
    for (;;) {
        struct copy *copy;
        pthread_mutex_lock(&lock);
        copy = stream->first;
        if (copy) {
            stream->first = copy->next;
            if (!copy->next) stream->last = &stream->first;
        }
        pthread_mutex_unlock(&lock);
        if (!copy) break;
        if (standin_copy(copy->to_device, copy->to, copy->from_device, copy->from, copy->bytes) != 0) result = -1;
        free(copy);
    }
    pthread_mutex_unlock(&running);
    return result;
}
