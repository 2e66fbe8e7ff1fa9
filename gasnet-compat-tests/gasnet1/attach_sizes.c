// A segment size that is no multiple of a page is refused, less than a page as well as more; the
// next attempt succeeds. Only 0 means one page (start_small).
// NP: 1 2
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check1.h"

int main(int argc, char **argv) {
    const uintptr_t odd[] = {1, 8, GASNET_PAGESIZE - 1, GASNET_PAGESIZE + 1, 3 * GASNET_PAGESIZE / 2};
    gasnet1_init("attach_sizes", &argc, &argv);
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        CHECKF(gasnet_attach(NULL, 0, odd[i], 0) == GASNET_ERR_BAD_ARG, "of %zu bytes", (size_t)odd[i]);
    }
    OK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0));
    gasnet1_look_around();
    CHECK(segments[me].size == GASNET_PAGESIZE);
    return test_finish();
}
