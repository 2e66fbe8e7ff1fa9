/* A libpmi for tests, with what is peculiar to Cray's: an all-gather in another order than that of
 * ranks, a store that takes no key twice and no '/', ';' and '=' in values, and a fence that may be
 * no barrier. `aprun` beside it starts the ranks, makes the file that they share, and kills all if
 * one ends without finalisation.
 *
 * EMU_PMI has words: dir=FOLDER rank=N size=N per-node=N, seed=N of the order, lazy-fence. */
#include "pmi_cray.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_RANKS = 1 << 14, MOST_VALUES = 1 << 14, WINDOW = 1 << 22 };

/* What the ranks share. All zero at first. */
struct shared {
    atomic_uint arrived, generation;
    atomic_uint node_arrived[MOST_RANKS], node_generation[MOST_RANKS];
    /* By rank, read by aprun: 1 joined, 2 left, 3 asks for the end of the job. */
    atomic_uchar state[MOST_RANKS];
    atomic_uint values;
    struct {
        char key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN];
        unsigned owner;
        /* Which fence of its owner makes it visible, plus one. */
        atomic_uint fence;
    } value[MOST_VALUES];
    char window[WINDOW];
};

static struct shared *shared;
static int own_rank, job_size, per_node, *nids;
static unsigned long seed;
static int lazy;
static unsigned fences, counter;
static char job[64];

/* The number behind a word of EMU_PMI. */
static long word(const char *name, long otherwise) {
    const char *text = getenv("EMU_PMI");
    for (size_t length = strlen(name); text && (text = strstr(text, name)); text += length)
        if (text[length] == '=') return strtol(text + length + 1, NULL, 10);
    return otherwise;
}

static int join(void) {
    char path[4096];
    const char *text = getenv("EMU_PMI"), *dir = text ? strstr(text, "dir=") : NULL;
    if (shared) return PMI_SUCCESS;
    if (!dir) {
        fprintf(stderr, "emulator of PMI: this process was not started by its aprun\n");
        return PMI_FAIL;
    }
    snprintf(path, sizeof path, "%.*s/pmi", (int)strcspn(dir + 4, " "), dir + 4);
    own_rank = (int)word("rank", 0);
    job_size = (int)word("size", 1);
    per_node = (int)word("per-node", job_size);
    seed = (unsigned long)word("seed", 1);
    lazy = strstr(text, "lazy-fence") != NULL;
    snprintf(job, sizeof job, "emulated-%ld", word("job", 0));
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || job_size > MOST_RANKS) return PMI_FAIL;
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    nids = malloc(sizeof *nids * (size_t)job_size);
    if (memory == MAP_FAILED || !nids) return PMI_FAIL;
    for (int rank = 0; rank < job_size; rank++) nids[rank] = 100 + rank / per_node;
    shared = memory;
    atomic_store(&shared->state[own_rank], 1);
    return PMI_SUCCESS;
}

static void wait_for(unsigned count, atomic_uint *arrived, atomic_uint *generation) {
    unsigned now = atomic_load(generation);
    if (atomic_fetch_add(arrived, 1) + 1 == count) {
        atomic_store(arrived, 0);
        atomic_fetch_add(generation, 1);
    } else {
        for (unsigned spins = 0; atomic_load(generation) == now; spins++)
            if (spins < 1000) sched_yield();
            else usleep(200);
    }
}

static void barrier(void) { wait_for((unsigned)job_size, &shared->arrived, &shared->generation); }

/* The first rank of this node, and how many there are. */
static int first_here(void) { return own_rank / per_node * per_node; }
static int count_here(void) { return first_here() + per_node > job_size ? job_size - first_here() : per_node; }

/* Where a rank's contribution comes in an all-gather: a step that has no divisor with the size. */
static int place(int rank, int size) {
    int step = size > 2 ? 1 + (int)(seed % (unsigned long)size) : 1;
    for (;; step++) {
        int a = step, b = size;
        while (b) {
            int rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
    }
    return (int)(((long)rank * step + (long)(seed % 7)) % size);
}

static int is_here(void) { return shared && atomic_load(&shared->state[own_rank]) == 1; }

int PMI2_Init(int *spawned, int *size, int *rank, int *number) {
    if (join() != PMI_SUCCESS) return PMI_FAIL;
    *spawned = 0;
    *size = job_size;
    *rank = own_rank;
    *number = 0;
    return PMI_SUCCESS;
}

int PMI_Init(int *spawned) {
    *spawned = 0;
    return join();
}

int PMI_Initialized(int *flag) {
    *flag = shared != NULL;
    return PMI_SUCCESS;
}

int PMI2_Initialized(void) { return shared != NULL; }

int PMI2_Finalize(void) {
    if (!is_here()) return PMI_ERR_INIT;
    atomic_store(&shared->state[own_rank], 2);
    return PMI_SUCCESS;
}

int PMI_Finalize(void) { return PMI2_Finalize(); }

int PMI2_Abort(int flag, const char message[]) {
    fprintf(stderr, "PMI2_Abort(%d) of rank %d: %s\n", flag, own_rank, message ? message : "");
    if (shared) atomic_store(&shared->state[own_rank], 3);
    _exit(1);
}

int PMI_Abort(int code, const char message[]) { return PMI2_Abort(code, message); }

int PMI_Get_version_info(int *major, int *minor, int *revision) {
    *major = 5;
    *minor = *revision = 0;
    return PMI_SUCCESS;
}

#define QUERY(name, value)                \
    int name(int *result) {               \
        if (!shared) return PMI_ERR_INIT; \
        *result = (value);                \
        return PMI_SUCCESS;               \
    }
QUERY(PMI_Get_size, job_size)
QUERY(PMI_Get_rank, own_rank)
QUERY(PMI_Get_universe_size, job_size)
QUERY(PMI_Get_appnum, 0)
QUERY(PMI_Get_rank_in_app, own_rank)
QUERY(PMI_Get_numpes_on_smp, count_here())
QUERY(PMI_Get_numpes_in_app_on_smp, count_here())

int PMI_Get_app_size(int number, int *size) {
    *size = job_size;
    return number == 0 ? PMI_SUCCESS : PMI_ERR_INVALID_ARG;
}

int PMI_Barrier(void) {
    if (!is_here()) return PMI_ERR_INIT;
    barrier();
    return PMI_SUCCESS;
}

int PMI_Bcast(void *data, int bytes) {
    if (!is_here() || bytes < 0 || bytes > WINDOW) return PMI_ERR_INVALID_ARG;
    if (own_rank == 0) memcpy(shared->window, data, (size_t)bytes);
    barrier();
    memcpy(data, shared->window, (size_t)bytes);
    barrier();
    return PMI_SUCCESS;
}

int PMI_Allgather(void *in, void *out, int bytes) {
    /* A window for each part of the contributions. */
    size_t length = (size_t)bytes, part = (size_t)WINDOW / (size_t)job_size;
    if (!is_here() || bytes < 0) return PMI_ERR_INVALID_ARG;
    for (size_t done = 0; done < length; done += part) {
        size_t now = length - done < part ? length - done : part;
        memcpy(shared->window + (size_t)own_rank * part, (char *)in + done, now);
        barrier();
        for (int rank = 0; rank < job_size; rank++)
            memcpy((char *)out + (size_t)place(rank, job_size) * length + done, shared->window + (size_t)rank * part,
                   now);
        barrier();
    }
    return PMI_SUCCESS;
}

int PMI_Allgather_on_smp(void *in, void *out, int bytes) {
    int first = first_here(), count = count_here(), node = own_rank / per_node;
    size_t length = (size_t)bytes;
    if (!is_here() || bytes < 0 || length > (size_t)WINDOW / (size_t)job_size) return PMI_ERR_INVALID_ARG;
    memcpy(shared->window + (size_t)own_rank * length, in, length);
    wait_for((unsigned)count, &shared->node_arrived[node], &shared->node_generation[node]);
    for (int rank = 0; rank < count; rank++)
        memcpy((char *)out + (size_t)place(rank, count) * length, shared->window + (size_t)(first + rank) * length,
               length);
    wait_for((unsigned)count, &shared->node_arrived[node], &shared->node_generation[node]);
    return PMI_SUCCESS;
}

int PMI_Get_nidlist_ptr(void **list) {
    if (!shared) return PMI_ERR_INIT;
    *list = nids;
    return PMI_SUCCESS;
}

int PMI_Get_nid(int rank, int *nid) {
    if (!shared || rank < 0 || rank >= job_size) return PMI_ERR_INVALID_ARG;
    *nid = nids[rank];
    return PMI_SUCCESS;
}

int PMI_Get_pes_on_smp(int *ranks, int count) {
    if (!shared || count < count_here()) return PMI_ERR_INVALID_ARG;
    for (int rank = 0; rank < count_here(); rank++) ranks[rank] = first_here() + rank;
    return PMI_SUCCESS;
}

int PMI2_Job_GetId(char id[], int bytes) {
    if (!shared) return PMI_ERR_INIT;
    return snprintf(id, (size_t)bytes, "%s", job) < bytes ? PMI_SUCCESS : PMI_ERR_INVALID_ARG;
}

int PMI2_KVS_Put(const char key[], const char value[]) {
    if (!is_here() || !*key || strlen(key) >= PMI2_MAX_KEYLEN || strlen(value) >= PMI2_MAX_VALLEN)
        return PMI_ERR_INVALID_ARG;
    if (strpbrk(value, "/;=")) return PMI_ERR_INVALID_ARG;
    unsigned count = atomic_load(&shared->values);
    for (unsigned index = 0; index < count && index < MOST_VALUES; index++)
        if (atomic_load(&shared->value[index].fence) && strcmp(shared->value[index].key, key) == 0)
            return PMI_ERR_INVALID_ARG;
    unsigned index = atomic_fetch_add(&shared->values, 1);
    if (index >= MOST_VALUES) return PMI_FAIL;
    strcpy(shared->value[index].key, key);
    strcpy(shared->value[index].value, *value ? value : "(null)");
    shared->value[index].owner = (unsigned)own_rank;
    atomic_store(&shared->value[index].fence, fences + 1);
    return PMI_SUCCESS;
}

int PMI2_KVS_Fence(void) {
    if (!is_here()) return PMI_ERR_INIT;
    fences++;
    if (!lazy || counter++ % 2) barrier();
    return PMI_SUCCESS;
}

int PMI2_KVS_Get(const char *id, int owner, const char key[], char value[], int most, int *bytes) {
    (void)owner;
    if (!is_here() || most < 1 || (id && strcmp(id, job) != 0)) return PMI_ERR_INVALID_ARG;
    /* A fence that is no barrier: the value comes some time. */
    for (unsigned tries = 0; tries < (lazy ? 50000U : 1U); tries++, usleep(200)) {
        unsigned count = atomic_load(&shared->values);
        for (unsigned index = 0; index < count && index < MOST_VALUES; index++) {
            unsigned fence = atomic_load(&shared->value[index].fence);
            if (!fence || fence > fences || strcmp(shared->value[index].key, key) != 0) continue;
            int length = (int)strlen(shared->value[index].value);
            snprintf(value, (size_t)most, "%s", shared->value[index].value);
            *bytes = length < most ? length : -length;
            return PMI_SUCCESS;
        }
    }
    return PMI_FAIL;
}
