/* What Cray's PMI promises, and what is peculiar to it. Started by aprun or srun; prints "good" in
 * rank 0. ENDS=abort, exit or kill: rank 1 ends so instead. */
#include "pmi_cray.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
            exit(3);                                                               \
        }                                                                          \
    } while (0)

static int rank, size;

/* An all-gather of `bytes` bytes: each contribution once, in the order of `order`. */
static void gather(const int *order, size_t bytes) {
    char *own = malloc(bytes), *all = malloc(bytes * (size_t)size);
    memset(own, 'a' + rank, bytes);
    CHECK(PMI_Allgather(own, all, (int)bytes) == PMI_SUCCESS);
    for (int place = 0; place < size; place++)
        for (size_t i = 0; i < bytes; i++) CHECK(all[(size_t)place * bytes + i] == 'a' + order[place]);
    free(own);
    free(all);
}

int main(void) {
    int spawned, number, flag, here, order[64], seen[64] = {0}, near[64], *nids, length;
    char text[2048], key[64], job[256];
    const char *ends = getenv("ENDS");
    CHECK(PMI_Barrier() != PMI_SUCCESS);
    CHECK(PMI2_Init(&spawned, &size, &rank, &number) == PMI2_SUCCESS);
    CHECK(size <= 64 && rank < size && PMI_Initialized(&flag) == PMI_SUCCESS && flag);
    CHECK(PMI_Allgather(&rank, order, sizeof rank) == PMI_SUCCESS);
    for (int i = 0; i < size; i++) seen[order[i]]++;
    for (int i = 0; i < size; i++) CHECK(seen[i] == 1);
    if (size > 3) {
        int sorted = 1;
        for (int i = 0; i < size; i++) sorted &= order[i] == i;
        CHECK(!sorted);
    }
    gather(order, 1);
    gather(order, 3000001);
    CHECK(PMI_Get_nidlist_ptr((void **)&nids) == PMI_SUCCESS);
    CHECK(PMI_Get_numpes_on_smp(&here) == PMI_SUCCESS && PMI_Get_pes_on_smp(near, here) == PMI_SUCCESS);
    for (int i = 0; i < here; i++) CHECK(nids[near[i]] == nids[rank]);
    CHECK(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS);
    snprintf(key, sizeof key, "key%d", rank);
    snprintf(text, sizeof text, "value of %d", rank);
    CHECK(PMI2_KVS_Put(key, text) == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Put(key, "another") != PMI2_SUCCESS);
    CHECK(PMI2_KVS_Put("slash", "a/b") != PMI2_SUCCESS && PMI2_KVS_Put("equals", "a=b") != PMI2_SUCCESS);
    if (rank == 0) CHECK(PMI2_KVS_Put("empty", "") == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    for (int other = 0; other < size; other++) {
        char expected[64];
        snprintf(key, sizeof key, "key%d", other);
        snprintf(expected, sizeof expected, "value of %d", other);
        CHECK(PMI2_KVS_Get(job, PMI2_ID_NULL, key, text, sizeof text, &length) == PMI2_SUCCESS);
        CHECK(strcmp(text, expected) == 0 && length == (int)strlen(expected));
    }
    CHECK(PMI2_KVS_Get(job, 0, "empty", text, sizeof text, &length) == PMI2_SUCCESS && strcmp(text, "(null)") == 0);
    CHECK(PMI2_KVS_Get(job, 0, "empty", text, 3, &length) == PMI2_SUCCESS && length < 0);
    number = rank == 0 ? 77 : 0;
    CHECK(PMI_Bcast(&number, sizeof number) == PMI_SUCCESS && number == 77);
    CHECK(getenv("PMI_GNI_COOKIE") && getenv("PMI_GNI_PTAG") && getenv("PMI_GNI_LOC_ADDR"));
    CHECK(PMI_Barrier() == PMI_SUCCESS);
    if (ends && rank == 1) {
        if (strcmp(ends, "abort") == 0) PMI2_Abort(1, "as asked");
        if (strcmp(ends, "kill") == 0) raise(SIGKILL);
        return 0;
    }
    if (ends) sleep(60);
    if (rank == 0) puts("good");
    CHECK(PMI2_Finalize() == PMI2_SUCCESS && PMI_Barrier() != PMI_SUCCESS);
    return 0;
}
