/* pmi.c: what a program sees of the emulator of Cray's PMI. `pmi TEST`, started by aprun or srun.
 * It prints answers that are compared with answers.txt, each by one rank. */
#define _GNU_SOURCE
#include "pmi_cray.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int size, rank;

static void must(bool good, const char *what) {
    if (!good) {
        printf("rank %d: failed: %s\n", rank, what);
        fflush(stdout);
        PMI2_Abort(1, what);
    }
}

/* Prints at rank 0 whether all ranks have found `good`. */
static void all(bool good, const char *what) {
    int own = good, *results = calloc((size_t)size, sizeof own), bad = 0;
    must(PMI_Allgather(&own, results, sizeof own) == PMI_SUCCESS, "gather results");
    for (int i = 0; i < size; i++) bad += !results[i];
    free(results);
    if (rank == 0) {
        printf("%s: %s\n", what, bad ? "no" : "yes");
        fflush(stdout);
    }
}

static void start(void) {
    int spawned, app;
    must(!PMI2_Initialized(), "not initialised at first");
    must(PMI_Get_rank(&rank) != PMI_SUCCESS, "no calls before PMI2_Init");
    must(PMI2_Init(&spawned, &size, &rank, &app) == PMI_SUCCESS, "PMI2_Init");
    must(PMI2_Initialized(), "initialised");
}

static void end(void) {
    must(PMI2_Finalize() == PMI_SUCCESS, "PMI2_Finalize");
    must(!PMI2_Initialized() && PMI_Barrier() != PMI_SUCCESS, "no calls after PMI2_Finalize");
}

static void gathers(void) {
    int *order = calloc((size_t)size, sizeof rank), *again = calloc((size_t)size, sizeof rank);
    must(PMI_Allgather(&rank, order, sizeof rank) == PMI_SUCCESS, "PMI_Allgather");
    must(PMI_Allgather(&rank, again, sizeof rank) == PMI_SUCCESS, "PMI_Allgather");
    bool sorted = true, complete = true;
    for (int i = 0; i < size; i++) {
        bool found = false;
        sorted &= order[i] == i;
        for (int j = 0; j < size; j++) found |= order[j] == i;
        complete &= found;
    }
    all(complete, "a gather has the contributions of all ranks");
    all(!sorted, "in another order than that of ranks");
    all(memcmp(order, again, (size_t)size * sizeof rank) == 0, "which does not change");
    int first = order[0];
    must(PMI_Bcast(&first, sizeof first) == PMI_SUCCESS, "PMI_Bcast");
    all(first == order[0], "and is the same in all processes");
    size_t big = 300000;
    char *in = malloc(big), *out = malloc(big * (size_t)size);
    memset(in, rank + 1, big);
    must(PMI_Allgather(in, out, (int)big) == PMI_SUCCESS, "a big gather");
    bool good = true;
    for (size_t i = 0; i < big * (size_t)size; i++) good &= out[i] == order[i / big] + 1;
    all(good, "a gather of 300,000 bytes each");
    free(in), free(out), free(order), free(again);
}

static void nodes(void) {
    int *nids = NULL, count, nid, here = 0, in_app;
    must(PMI_Get_nidlist_ptr((void **)&nids) == PMI_SUCCESS && nids, "PMI_Get_nidlist_ptr");
    must(PMI_Get_numpes_on_smp(&count) == PMI_SUCCESS, "PMI_Get_numpes_on_smp");
    must(PMI_Get_numpes_in_app_on_smp(&in_app) == PMI_SUCCESS, "PMI_Get_numpes_in_app_on_smp");
    for (int i = 0; i < size; i++) here += nids[i] == nids[rank];
    all(here == count && in_app <= count, "the list of nodes and the number of processes here agree");
    int *ranks = calloc((size_t)count, sizeof rank), *found = calloc((size_t)count, sizeof rank);
    bool good = PMI_Get_pes_on_smp(ranks, count) == PMI_SUCCESS && PMI_Get_pes_on_smp(ranks, 0) != PMI_SUCCESS;
    for (int i = 0; i < count; i++) good &= nids[ranks[i]] == nids[rank];
    all(good, "and the ranks here");
    must(PMI_Allgather_on_smp(&rank, found, sizeof rank) == PMI_SUCCESS, "PMI_Allgather_on_smp");
    good = true;
    for (int i = 0; i < count; i++) good &= nids[found[i]] == nids[rank];
    all(good, "and a gather among them");
    all(PMI_Get_nid(rank, &nid) == PMI_SUCCESS && nid == nids[rank] && PMI_Get_nid(size, &nid) != PMI_SUCCESS,
        "the node of a rank");
    const char *node = getenv("EMU_UGNI_NODE"), *address = getenv("PMI_GNI_LOC_ADDR");
    all(!address || atoi(address) == 0x100 + atoi(node), "the address of the NIC is that of the node");
    free(ranks), free(found);
}

static void places(void) {
    int number, app_size, app_rank, value, major, minor, revision, flag;
    must(PMI_Get_appnum(&number) == PMI_SUCCESS && PMI_Get_app_size(number, &app_size) == PMI_SUCCESS, "program");
    must(PMI_Get_rank_in_app(&app_rank) == PMI_SUCCESS, "PMI_Get_rank_in_app");
    all(app_rank < app_size && PMI_Get_app_size(99, &value) != PMI_SUCCESS, "the place in a program");
    all(PMI_Get_size(&value) == PMI_SUCCESS && value == size, "PMI_Get_size");
    all(PMI_Get_rank(&value) == PMI_SUCCESS && value == rank, "PMI_Get_rank");
    all(PMI_Get_universe_size(&value) == PMI_SUCCESS && value == size, "PMI_Get_universe_size");
    all(PMI_Get_version_info(&major, &minor, &revision) == PMI_SUCCESS, "PMI_Get_version_info");
    all(PMI_Initialized(&flag) == PMI_SUCCESS && flag == PMI_TRUE, "PMI_Initialized");
}

static void store(bool lazy) {
    char job[256], key[128], value[PMI2_MAX_VALLEN + 1], long_key[PMI2_MAX_KEYLEN + 1];
    int length;
    must(PMI2_Job_GetId(job, sizeof job) == PMI_SUCCESS && *job, "PMI2_Job_GetId");
    all(PMI2_Job_GetId(job, 2) != PMI_SUCCESS, "the name of a job needs room");
    must(PMI2_Job_GetId(job, sizeof job) == PMI_SUCCESS, "PMI2_Job_GetId");
    sprintf(key, "key-%d", rank);
    if (lazy && rank == 0) usleep(100000);
    must(PMI2_KVS_Put(key, key) == PMI_SUCCESS, "PMI2_KVS_Put");
    all(PMI2_KVS_Put(key, "other") != PMI_SUCCESS, "a key is taken once");
    all(PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &length) != PMI_SUCCESS,
        "a value is not visible before a fence");
    sprintf(key, "empty-%d", rank);
    must(PMI2_KVS_Put(key, "") == PMI_SUCCESS, "an empty value");
    for (const char *c = "/;="; *c; c++) {
        sprintf(key, "%c-%d", *c, rank);
        sprintf(value, "a%cb", *c);
        all(PMI2_KVS_Put("bad", value) != PMI_SUCCESS, "a forbidden character");
    }
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    all(PMI2_KVS_Put(long_key, "x") != PMI_SUCCESS, "a key that is too long");
    all(PMI2_KVS_Put("long", value) != PMI_SUCCESS, "a value that is too long");
    must(PMI2_KVS_Fence() == PMI_SUCCESS, "PMI2_KVS_Fence");
    bool good = true;
    for (int i = 0; i < size; i++) {
        sprintf(key, "key-%d", i);
        good &= PMI2_KVS_Get(job, i, key, value, sizeof value, &length) == PMI_SUCCESS && strcmp(value, key) == 0 &&
                length == (int)strlen(key);
    }
    all(good, "values of all ranks after a fence");
    sprintf(key, "empty-%d", rank);
    all(PMI2_KVS_Get(job, rank, key, value, sizeof value, &length) == PMI_SUCCESS && strcmp(value, "(null)") == 0,
        "an empty value is (null)");
    all(PMI2_KVS_Get(job, rank, key, value, 3, &length) == PMI_SUCCESS && length < 0 && strcmp(value, "(n") == 0,
        "a value that needs more room");
    all(PMI2_KVS_Get("other", rank, key, value, sizeof value, &length) != PMI_SUCCESS, "another job's store");
    all(PMI2_KVS_Get(job, rank, "none", value, sizeof value, &length) != PMI_SUCCESS, "a key that nobody has put");
    must(PMI2_KVS_Fence() == PMI_SUCCESS && PMI_Barrier() == PMI_SUCCESS, "PMI2_KVS_Fence");
}

/* A child of a rank must not use its connection. */
static void child(void) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(PMI2_Initialized() || PMI_Barrier() == PMI_SUCCESS || PMI2_Finalize() == PMI_SUCCESS);
    waitpid(pid, &status, 0);
    all(status == 0, "a forked child has no connection");
}

/* How a job ends: the last rank does what the word says, the others wait for it. */
static void ends(const char *how) {
    int last = rank == size - 1;
    if (strcmp(how, "early") == 0 && last) exit(0);
    if (strcmp(how, "killed") == 0 && last) raise(SIGKILL);
    if (strcmp(how, "abort") == 0 && last) PMI2_Abort(1, "because of a test");
    if (strcmp(how, "alone") == 0) {
        /* Others have finalised: an error, no hang. */
        if (last) {
            usleep(200000);
            must(PMI_Barrier() != PMI_SUCCESS, "a barrier fails");
        }
    } else if (strcmp(how, "orphan") == 0) {
        if (fork() == 0) {
            sleep(600);
            _exit(0);
        }
    } else if (strcmp(how, "wait") == 0) {
        printf("rank %d waits\n", rank);
        fflush(stdout);
        sleep(600);
    } else if (strncmp(how, "code", 4)) {
        must(PMI_Barrier() == PMI_SUCCESS, "a barrier");
    }
    end();
    if (strncmp(how, "code", 4) == 0 && last) exit(atoi(how + 4));
}

int main(int argc, char **argv) {
    const char *test = argc > 1 ? argv[1] : "all";
    if (strcmp(test, "no-pmi") == 0) return 0;
    start();
    if (strcmp(test, "all") == 0 || strcmp(test, "lazy") == 0) {
        places();
        gathers();
        nodes();
        child();
        store(strcmp(test, "lazy") == 0);
        end();
    } else ends(test);
    return 0;
}
