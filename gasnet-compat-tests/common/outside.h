/* Two ranks that take turns without GASNet, so that one can stay outside it for as long as the
 * other's call takes. For jobs on one host: the words are in a file that all ranks map. */
#ifndef COMPAT_TESTS_OUTSIDE_H
#define COMPAT_TESTS_OUTSIDE_H

#include "check.h"

#include <fcntl.h>
#include <gasnet_coll.h>
#include <sys/mman.h>

/* The first word counts the turns. */
static uint32_t *shared, turns;

/* Collective. */
static void share_words(void) {
    char path[64] = "/tmp/gasnet-test-XXXXXX";
    int file = -1;
    if (me == 0) {
        file = mkstemp(path);
        REQUIRE(file >= 0 && ftruncate(file, GASNET_PAGESIZE) == 0);
    }
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, path, path, sizeof path, 0));
    if (me != 0) file = open(path, O_RDWR);
    shared = (uint32_t *)mmap(NULL, GASNET_PAGESIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(shared != MAP_FAILED);
    close(file);
    barrier();
    if (me == 0) unlink(path);
}

/* It is the other rank's turn. */
static void proceed(void) { ATOMIC_SET(shared, ++turns); }
/* Waits for this rank's turn. */
static void await(void) {
    for (turns++; ATOMIC_GET(shared) < turns;) usleep(200);
}

#endif
