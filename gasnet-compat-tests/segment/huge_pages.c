// Huge pages that are asked for: the segment is usual memory, and advised to have them if, and only
// if, the host has them for shared memory.
// NP: 1 2 3
// SEGMENTS: fast large
// ENV: GASNET_USE_HUGEPAGES=1
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 6 << 20 };

static int allowed(void) {
    char policy[200] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "r");
    if (file == NULL) return 0;
    if (fgets(policy, sizeof policy, file) == NULL) policy[0] = '\0';
    fclose(file);
    return policy[0] != '\0' && strstr(policy, "[never]") == NULL && strstr(policy, "[deny]") == NULL;
}

/* Whether the mapping that holds `address` is advised to have huge pages: "hg" among its flags. -1:
 * the kernel does not say. */
static int is_advised(const void *address) {
    char line[1000];
    int inside = 0, advised = -1;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0) advised = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return advised;
}

int main(int argc, char **argv) {
    static unsigned char data[BYTES];
    test_init("huge_pages", &argc, &argv);
    test_attach(BYTES + 4096);
    int advised = is_advised(gex_Segment_QueryAddr(segment));
    CHECKF(advised < 0 || advised == allowed(), "advised %d, allowed %d", advised, allowed());
    PHASE("put");
    gex_Rank_t peer = (me + 1) % np;
    gex_Rank_t from = (me + np - 1) % np;
    pattern_fill(data, BYTES, me);
    OK(gex_RMA_PutBlocking(tm, peer, seg_of(peer) + 4096, data, BYTES, 0));
    barrier();
    CHECK_PATTERN((unsigned char *)gex_Segment_QueryAddr(segment) + 4096, BYTES, from);
    return test_finish();
}
