// harness.c: processes, and what all tests do.
#include "harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

const gasnet_elan_shim_t *shim;
__thread gasnet_elan_t *elan;
__thread gasnet_elan_info_t info;
__thread uint32_t me, size;
static uint64_t job;
// The thread is of the second job of `run_threads`, which prints nothing.
static __thread bool is_second;

gasnet_elan_place_t place(uint32_t rank, uint32_t processes) {
    gasnet_elan_place_t place = {job + is_second, rank, processes};
    return place;
}

void attach(uint32_t rank, uint32_t processes) {
    gasnet_elan_place_t at = place(rank, processes);
    char why[200] = "";
    elan = shim->start(&at, &info, why, sizeof why);
    if (elan == NULL) printf("start: %s\n", why);
    must(elan != NULL, "start");
    me = info.vp;
    is_silent = me != 0 || is_second;
    size = info.size;
}

// Forks processes, which stop when the function returns, and waits for them.
static void fork_all(uint32_t processes, void (*part)(void), int out, int *status) {
    pid_t children[64];
    job++;
    fflush(stdout);
    for (uint32_t i = 0; i < processes; i++) {
        children[i] = fork();
        must(children[i] != -1, "fork");
        if (children[i] != 0) continue;
        // A process that waits for one that failed must end, too.
        alarm(30);
        if (out >= 0) dup2(out, 2);
        attach(i, processes);
        part();
        if (elan != NULL) shim->stop(elan);
        fflush(stdout);
        exit(0);
    }
    for (uint32_t i = 0; i < processes; i++) must(waitpid(children[i], &status[i], 0) == children[i], "waitpid");
}

void run(uint32_t processes, void (*part)(void)) {
    int status[64];
    fork_all(processes, part, -1, status);
    for (uint32_t i = 0; i < processes; i++) must(status[i] == 0, "a process ended badly");
}

// The function that the threads of `run_threads` run, and their number.
static void (*shared_part)(void);
static uint32_t threads;

static void *thread(void *rank) {
    is_second = (uintptr_t)rank >= threads;
    attach((uint32_t)((uintptr_t)rank % threads), threads);
    shared_part();
    shim->stop(elan);
    return NULL;
}

static void all_threads(void) {
    pthread_t all[64];
    for (uint32_t i = 0; i < 2 * threads; i++)
        must(pthread_create(&all[i], NULL, thread, (void *)(uintptr_t)i) == 0, "a thread");
    for (uint32_t i = 0; i < 2 * threads; i++) pthread_join(all[i], NULL);
}

void run_threads(uint32_t count, void (*part)(void)) {
    shared_part = part;
    threads = count;
    job++;
    run_alone("threads", all_threads);
}

// Prints what is in a file, after a name.
static void print(const char *test, FILE *file) {
    char line[400];
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) printf("%s: %s", test, line);
    fclose(file);
}

static void print_status(const char *test, int status) {
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", test, WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) printf("%s: status %d\n", test, WEXITSTATUS(status));
    fflush(stdout);
}

void run_fatal(const char *test, uint32_t processes, void (*part)(void)) {
    FILE *file = tmpfile();
    int status[64];
    must(file != NULL, "tmpfile");
    fork_all(processes, part, fileno(file), status);
    print(test, file);
    for (uint32_t i = 0; i < processes; i++) print_status(test, status[i]);
}

void run_alone(const char *test, void (*part)(void)) {
    FILE *file = tmpfile();
    int status;
    job++;
    fflush(stdout);
    must(file != NULL, "tmpfile");
    pid_t child = fork();
    must(child != -1, "fork");
    if (child == 0) {
        dup2(fileno(file), 2);
        part();
        fflush(stdout);
        exit(0);
    }
    must(waitpid(child, &status, 0) == child, "waitpid");
    print(test, file);
    print_status(test, status);
}

uint8_t *pages(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

uint8_t *symmetric(size_t bytes, uint64_t *address) {
    uint8_t *memory = shim->symmetric(elan, 64, bytes, address);
    must(memory != NULL, "symmetric");
    memset(memory, 0, bytes);
    shim->sync(elan);
    return memory;
}

gasnet_elan_queue_t *make_queue(size_t slots) {
    gasnet_elan_queue_t *queue = shim->queue(elan, slots, 64);
    must(queue != NULL, "queue");
    return queue;
}

static const struct test tests[] = {
    {"start", test_start}, {"memory", test_memory},           {"transfers", test_transfers}, {"queues", test_queues},
    {"ports", test_ports}, {"collectives", test_collectives}, {"together", test_together},   {"ends", test_ends},
};
static const struct test faults[] = {
    {"misuse", fault_misuse},  {"late", fault_late},   {"reorder", fault_reorder},
    {"limits", fault_limits},  {"waits", fault_waits}, {"threads", fault_threads},
    {"no-start", fault_start}, {"leaks", fault_leaks}, {"spoilt", fault_spoilt},
};

// Without arguments all tests but those of faults, whose names are arguments.
int main(int argc, char **argv) {
    const gasnet_elan_shim_t *(*find)(void);
    const char *path = getenv("GASNET_ELAN_SHIM");
    struct rlimit no_cores = {0, 0};
    void *library = dlopen(path != NULL ? path : "", RTLD_NOW);
    (void)argc;
    // No two programs of a fabric have a job in common.
    job = (uint64_t)getpid() << 16;
    setrlimit(RLIMIT_CORE, &no_cores);
    must(library != NULL, "GASNET_ELAN_SHIM is the library");
    *(void **)&find = dlsym(library, "gasnet_elan_shim");
    must(find != NULL && (shim = find()) != NULL, "gasnet_elan_shim");
    must(shim->version == GASNET_ELAN_SHIM_VERSION, "the version");
    run_tests(tests, sizeof tests / sizeof *tests, true, argv);
    run_tests(faults, sizeof faults / sizeof *faults, false, argv);
    printf("done\n");
    return 0;
}
