// standin.h: what the stand-ins for vendors' device libraries share: device memory that the host
// may not touch, streams that copy only when they are synchronised, and faults on demand. Tests
// only; see README.md.
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

enum { STANDIN_MOST_DEVICES = 8 };

// Calls that can be asked to fail (standin_fail).
enum standin_fault { STANDIN_ALLOC, STANDIN_COPY, STANDIN_SYNC, STANDIN_INIT, STANDIN_EXPORT, STANDIN_FAULTS };

// Objects that are counted (standin_live).
enum standin_count { STANDIN_MEMORIES, STANDIN_STREAMS, STANDIN_CONTEXTS, STANDIN_COUNTS };

typedef struct standin_stream standin_stream;

// Number of devices: STANDIN_DEVICES, or 2.
int standin_devices(void);

// New memory of a device: an address range that any access of the host faults on. 0 on failure.
uintptr_t standin_alloc(int device, size_t bytes);
// 0, or -1 if there is no such memory.
int standin_free(uintptr_t address);
// The device that `bytes` at `address` are memory of, or -1. The start and length of the allocation
// too, where asked for.
int standin_owner(uintptr_t address, size_t bytes, uintptr_t *base, size_t *length);

// Whether the allocation of an address was marked: Level Zero's, as one for export.
void standin_mark(uintptr_t address);
int standin_is_marked(uintptr_t address);
// The file with the memory of a device that has the range, and the offset of its first byte there.
// -1 if there is none. Not a copy.
int standin_export(int device, uintptr_t address, size_t bytes, uint64_t *offset);

standin_stream *standin_stream_create(int device);
void standin_stream_destroy(standin_stream *stream);
int standin_stream_device(const standin_stream *stream);
// A copy that runs when the stream is synchronised. `to` and `from` are the devices that the ends
// must be on, -1 for host memory. 0, or -1.
int standin_copy_later(standin_stream *stream, int to, uintptr_t to_address, int from, uintptr_t from_address,
                       size_t bytes);
// Runs what waits. 0, or -1 when a copy fails.
int standin_synchronize(standin_stream *stream);
// The same at once.
int standin_copy(int to, uintptr_t to_address, int from, uintptr_t from_address, size_t bytes);

void standin_count_more(enum standin_count what, int change);
// Whether this call is to fail.
int standin_faulty(enum standin_fault what);

// For tests, found by dlsym: the call number `after` from now on (1: the next) fails; 0: none. And
// what exists now.
void standin_fail(int what, int after);
int standin_live(int what);

#endif
