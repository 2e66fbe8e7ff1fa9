/* Kinds of local memory. Networks register memory, and keep registrations: pages that may not be
 * written, that a fork has copied or that were mapped anew are where that goes wrong. */
#include "selftest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const memory_names[MEMORIES] = {"private",    "segment",      "stack",  "static",  "read-only",
                                            "huge pages", "fork-touched", "shared", "remapped"};
enum { SMALL_ROOM = 128 << 10, HUGE_PAGE = 2 << 20 };
static char *heap;
static char static_memory[SMALL_ROOM];

static size_t room_of(int kind) {
    return kind == STACK || kind == STATIC ? (size_t)SMALL_ROOM : most_bytes() + HUGE_PAGE;
}

char *memory_of(int kind) {
    if (kind == SEGMENT) return part_of(me, LOCAL);
    if (heap == NULL) heap = malloc(most_bytes() + AROUND);
    if (heap == NULL) gasnet_exit(1);
    return heap;
}

/* A child that shares the pages of before the fork until this end of the pipe is closed. */
static struct {
    pid_t process;
    int pipe;
    unsigned uses;
} child;

static void end_child(void) {
    if (child.process <= 0) return;
    close(child.pipe);
    waitpid(child.process, NULL, 0);
    child.process = 0;
}

static void fork_child(void) {
    int ends[2];
    char byte;
    if (child.process > 0 && ++child.uses % 8 != 0) return;
    end_child();
    if (pipe(ends) != 0) return;
    child.process = fork();
    if (child.process == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) < 0) _exit(1);
        _exit(0);
    }
    close(ends[0]);
    child.pipe = ends[1];
}

void memory_open(int kind, char *at) {
    const int usual = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    switch (kind) {
        case READ_ONLY: mprotect(at, room_of(kind), PROT_READ | PROT_WRITE); break;
        case FORKED: fork_child(); break;
        case REMAPPED:
            if (mmap(at, room_of(kind), PROT_READ | PROT_WRITE, usual, -1, 0) == MAP_FAILED) gasnet_exit(1);
            break;
        default: break;
    }
}

void memory_close(int kind, char *at) {
    if (kind == READ_ONLY) mprotect(at, room_of(kind), PROT_READ);
}

static char *mapped(int kind) {
    int flags = (kind == SHARED ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | (kind == HUGE_PAGES ? MAP_HUGETLB : 0);
    void *at =
        mmap(NULL, (room_of(kind) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Transfers in both directions, and Longs. */
static void exercise(struct local local, gex_Rank_t peer, double until) {
    size_t turn, passes = options.quick ? 1 : 10, most = room_of(local.kind) - AROUND;
    size_t most_long = most_of_message(some_long, peer);
    if (most > most_bytes()) most = most_bytes();
    for (turn = 0; turn < passes * plan_count() && now() < until; turn++) {
        struct size size = plan_size(turn, most);
        unsigned align = plan_alignment(turn);
        transfer(some_put, local, peer, size, align);
        if (local.kind != READ_ONLY) transfer(some_get, local, peer, size, align);
        message(some_long, local, peer, plan_size(turn, most < most_long ? most : most_long), align);
    }
    end_turns(turn, plan_count());
}

static void on_stack(gex_Rank_t peer, double until) {
    char room[SMALL_ROOM];
    struct local local = {STACK, room};
    exercise(local, peer, until);
}

static char *block; /* of the test */
static void work(const struct test *test, gex_Rank_t peer, double until) {
    struct local local = {test->variant, block};
    if (test->variant == STACK) on_stack(peer, until);
    else exercise(local, peer, until);
}

static const char *cannot_map(const struct test *test) {
    switch (test->variant) {
        case STACK: break;
        case STATIC: block = static_memory; break;
        case HUGE_PAGES:
            block = mapped(test->variant);
            if (block == NULL) return "no huge pages: /proc/sys/vm/nr_hugepages reserves them";
            break;
        default:
            block = mapped(test->variant);
            if (block == NULL) return "mmap fails";
    }
    return NULL;
}

static void run(const struct test *test) {
    in_turns(test, work, test_ends());
    if (test->variant == FORKED) end_child();
    if (test->variant == READ_ONLY) memory_open(READ_ONLY, block);
    /* The other blocks stay mapped: an unmapped one would make the next test's a remapped one. */
}

const struct test memory_tests[] = {
    {"memory-stack", "puts, gets and Longs from the stack", 1, STACK, run, cannot_map},
    {"memory-static", "the same, from static data of the program", 1, STATIC, run, cannot_map},
    {"memory-readonly", "puts and Longs from pages that may not be written", 1, READ_ONLY, run, cannot_map},
    {"memory-huge", "puts, gets and Longs from huge pages", 1, HUGE_PAGES, run, cannot_map},
    {"memory-forked", "the same, from pages that were written after a fork", 1, FORKED, run, cannot_map},
    {"memory-shared", "the same, from memory shared with other processes", 1, SHARED, run, cannot_map},
    {"memory-remapped", "the same, from pages mapped anew at the same address", 1, REMAPPED, run, cannot_map},
    {NULL, NULL, 0, 0, NULL, NULL}};
