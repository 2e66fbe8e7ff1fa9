// 1,000 client threads that come and go: each talks to a peer; memory, threads and descriptors do
// not grow.
// NP: 1 2 3
// MODES: par
// TIMEOUT: 180
#include "stress.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FREED_MEMORY_IS_GONE 0 /* kept for a while, or its shadow is */
#else
#define FREED_MEMORY_IS_GONE 1
#endif

#include <dirent.h>
#include <malloc.h>

enum { ECHO = 200, ECHOED = 201, AT_ONCE = 8, WARM_UP = 250, TOTAL = 1000 };
static char *target;
static gex_Rank_t peer;

static void on_echo(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t high, gex_AM_Arg_t low) {
    gex_AM_ReplyMedium2(token, ECHOED, payload, bytes, GEX_EVENT_NOW, 0, high, low);
}
static void on_echoed(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t high, gex_AM_Arg_t low) {
    int *done = (int *)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
    ATOMIC_SET(done, 1);
}

static long status_kib(const char *name) {
    char line[128];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) value = atol(line + strlen(name));
    fclose(file);
    return value;
}

static long entries(const char *path) {
    long count = 0;
    DIR *directory = opendir(path);
    if (!directory) return -1;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void *visit(void *index) {
    uint64_t value = (uint64_t)(uintptr_t)index, back = 0;
    uint64_t *mine = (uint64_t *)(void *)target + (uintptr_t)index % AT_ONCE;
    char payload[64];
    int done;
    uintptr_t address = (uintptr_t)&done;
    ATOMIC_SET(&done, 0); /* ThreadSanitizer does not see that the peer answers after it */
    memset(payload, 7, sizeof payload);
    gex_Event_t event = gex_RMA_PutNB(tm, peer, mine, &value, 8, GEX_EVENT_DEFER, 0);
    gex_Event_Wait(event);
    gex_RMA_GetBlocking(tm, &back, peer, mine, 8, 0);
    CHECK(back == value);
    gex_NBI_BeginAccessRegion(0);
    gex_RMA_PutNBI(tm, peer, mine, &value, 8, GEX_EVENT_DEFER, 0);
    gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    gex_RMA_GetNBI(tm, &back, peer, mine, 8, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    gex_AM_RequestMedium2(tm, peer, ECHO, payload, sizeof payload, GEX_EVENT_NOW, 0,
                          (gex_AM_Arg_t)((uint64_t)address >> 32), (gex_AM_Arg_t)(uint32_t)address);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&done));
    return NULL;
}

int main(int argc, char **argv) {
    long rss = 0, virtual_size = 0, descriptors = 0, tasks = 0;
    uintptr_t made = 0;
    mallopt(M_ARENA_MAX, 1); /* malloc's arenas per thread would blur the picture */
    test_init("thread_churn", &argc, &argv);
    register_handler(ECHO, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 2);
    register_handler(ECHOED, (gex_AM_Fn_t)on_echoed, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 2);
    test_attach(65536);
    peer = (me + 1) % np;
    target = seg_of(peer);
    /* Each rank sleeps in a wait, which may start a thread of the library. */
    for (gex_Rank_t rank = 0; rank < np; rank++) {
        if (rank == me) usleep(100000);
        barrier();
    }
    PHASE("threads come and go");
    while (made < TOTAL) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&threads[i], NULL, visit, (void *)(made + (uintptr_t)i)) == 0);
        for (int i = 0; i < AT_ONCE; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
        made += AT_ONCE;
        if (made >= WARM_UP && rss == 0) {
            rss = status_kib("VmRSS:");
            virtual_size = status_kib("VmSize:");
            descriptors = entries("/proc/self/fd");
            tasks = entries("/proc/self/task");
        }
    }
    barrier();
    PHASE("comparison");
    if (FREED_MEMORY_IS_GONE) {
        // Threads that receive at the same time have a batch of datagrams each, which stays.
        CHECKF(status_kib("VmRSS:") <= rss + 4096 + AT_ONCE * 1152, "resident memory grew from %ld to %ld KiB", rss,
               status_kib("VmRSS:"));
        CHECKF(status_kib("VmSize:") <= virtual_size + 16384, "address space grew from %ld to %ld KiB", virtual_size,
               status_kib("VmSize:"));
    }
    CHECKF(entries("/proc/self/fd") <= descriptors, "descriptors grew from %ld to %ld", descriptors,
           entries("/proc/self/fd"));
    CHECKF(entries("/proc/self/task") <= tasks, "threads grew from %ld to %ld", tasks, entries("/proc/self/task"));
    return test_finish();
}
