/* Stands for libfabric and libibverbs: two providers, one of them twice, and one device. */
#include <stddef.h>
#include <stdint.h>

struct fabric {
    void *fabric;
    const char *name, *provider;
};
struct info {
    struct info *next;
    uint64_t caps, mode;
    uint32_t format;
    size_t lengths[2];
    void *pointers[7];
    struct fabric *fabric;
};
static struct fabric fabrics[] = {{NULL, "a", "tcp"}, {NULL, "b", "shm"}, {NULL, "c", "tcp"}};
static struct info infos[3];
static int freed;

uint32_t fi_version(void) { return 1U << 16 | 21; }
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct info *hints,
               struct info **result) {
    int i;
    (void)node, (void)service, (void)flags, (void)hints;
    for (i = 0; i < 3; i++) {
        infos[i].fabric = &fabrics[i];
        infos[i].next = i < 2 ? &infos[i + 1] : NULL;
    }
    *result = infos;
    return version == fi_version() ? 0 : -1;
}
void fi_freeinfo(struct info *info) { freed += info == infos; }

static int device;
static void *devices[] = {&device, NULL};
void **ibv_get_device_list(int *count) {
    *count = 1;
    return devices;
}
void ibv_free_device_list(void **list) { freed += list == devices; }
const char *ibv_get_device_name(void *which) { return which == &device ? "standin_0" : "?"; }

/* What a library of devices is known by. */
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int zeInit(unsigned flags);
int zeInit(unsigned flags) { return (int)flags; }
