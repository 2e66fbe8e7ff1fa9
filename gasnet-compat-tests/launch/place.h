/* The placement of a rank, and the line that reports it to support/bed.py. */
#ifndef COMPAT_TESTS_PLACE_H
#define COMPAT_TESTS_PLACE_H

#include "../common/check.h"

enum { NAME_BYTES = 128 };

/* The placement of a rank. */
struct place {
    char host[NAME_BYTES];
    gex_Rank_t hosts, host_number, nbrhds, nbrhd_number, on_host, in_nbrhd;
};

static void find_place(struct place *mine) {
    memset(mine, 0, sizeof *mine);
    REQUIRE(gethostname(mine->host, NAME_BYTES - 1) == 0);
    gex_System_QueryMyPosition(&mine->nbrhds, &mine->nbrhd_number, &mine->hosts, &mine->host_number);
    gex_System_QueryHostInfo(NULL, &mine->on_host, NULL);
    gex_System_QueryNbrhdInfo(NULL, &mine->in_nbrhd, NULL);
}

static void print_place(const struct place *mine) {
    printf("rank %u of %u on %s host %u/%u with %u nbrhd %u/%u with %u pid %d\n", (unsigned)me, (unsigned)np,
           mine->host, (unsigned)mine->host_number, (unsigned)mine->hosts, (unsigned)mine->on_host,
           (unsigned)mine->nbrhd_number, (unsigned)mine->nbrhds, (unsigned)mine->in_nbrhd, (int)getpid());
    fflush(stdout);
}

#endif
