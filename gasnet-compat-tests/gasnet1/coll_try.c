// gasnet_coll_try_sync in a loop without any other call: it makes progress of its own.
// NP: 1 2 3 4
// TIMEOUT: 60
#include "check1.h"

#include <gasnet_coll.h>

enum { FLAGS = GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL };

int main(int argc, char **argv) {
    gasnet1_init("coll_try", &argc, &argv);
    gasnet1_attach(NULL, 0, 65536);
    for (int round = 0; round < 20; round++) {
        gasnet_image_t root = (gasnet_image_t)(round % (int)gasnet_nodes());
        int mine = (int)gasnet_mynode() + 10 * round, got = -1, *all = (int *)calloc(gasnet_nodes(), sizeof *all);
        int result;
        gasnet_coll_handle_t one = gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, &got, root, &mine, sizeof mine, FLAGS);
        while ((result = gasnet_coll_try_sync(one)) == GASNET_ERR_NOT_READY) {}
        CHECK(result == GASNET_OK && got == (int)root + 10 * round);
        one = gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, all, &mine, sizeof mine, FLAGS);
        while ((result = gasnet_coll_try_sync(one)) == GASNET_ERR_NOT_READY) {}
        CHECK(result == GASNET_OK);
        for (int i = 0; i < (int)gasnet_nodes(); i++) CHECK(all[i] == i + 10 * round);
        free(all);
    }
    return test_finish();
}
