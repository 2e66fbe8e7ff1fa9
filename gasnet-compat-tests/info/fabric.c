/* Stands for libfabric without providers, and for libibverbs with one device. */
#include <stddef.h>
#include <stdint.h>

uint32_t fi_version(void) { return 1U << 16 | 21; }

static int freed;
static int device;
static void *devices[] = {&device, NULL};
void **ibv_get_device_list(int *count) {
    *count = 1;
    return devices;
}
void ibv_free_device_list(void **list) { freed += list == devices; }
const char *ibv_get_device_name(void *which) { return which == &device ? "standin_0" : "?"; }

/* The functions by which a library of devices is recognised. */
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int zeInit(unsigned flags);
int zeInit(unsigned flags) { return (int)flags; }
