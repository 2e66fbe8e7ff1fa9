// gex_Segment_Create over memory that this process cannot read and write is refused with
// GASNET_ERR_BAD_ARG; over any it can, at any address and of any length, it works.
// NP: 1
// TIMEOUT: 60
#include "check.h"

#include <sys/mman.h>

static int create(char *base, size_t bytes) {
    gex_Segment_t made = GEX_SEGMENT_INVALID;
    gex_System_SetVerboseErrors(0);
    int result = gex_Segment_Create(&made, client, base, bytes, GEX_MK_HOST, 0);
    gex_System_SetVerboseErrors(1);
    if (result == GASNET_OK) {
        CHECK(gex_Segment_QueryAddr(made) == base && gex_Segment_QuerySize(made) == bytes);
        gex_Segment_Destroy(made, 0);
    } else {
        CHECK(made == GEX_SEGMENT_INVALID);
    }
    return result;
}

int main(int argc, char **argv) {
    static char fixed[777];
    size_t page = 4096;
    test_init("segment_memory", &argc, &argv);
    char *memory = (char *)mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    CHECK(create(memory, 8 * page) == GASNET_OK && create(memory + 1, 8 * page - 2) == GASNET_OK &&
          create(memory + 17, 1) == GASNET_OK);
    CHECK(create(fixed + 3, 700) == GASNET_OK);
    REQUIRE(mprotect(memory + 2 * page, page, PROT_READ) == 0 && mprotect(memory + 5 * page, page, PROT_NONE) == 0);
    REQUIRE(munmap(memory + 7 * page, page) == 0);
    CHECK(create(memory, 2 * page) == GASNET_OK);
    CHECK(create(memory, 2 * page + 1) == GASNET_ERR_BAD_ARG);
    CHECK(create(memory + 2 * page, page) == GASNET_ERR_BAD_ARG);
    CHECK(create(memory + 5 * page + 5, 1) == GASNET_ERR_BAD_ARG);
    CHECK(create(memory + 6 * page, page) == GASNET_OK);
    CHECK(create(memory + 6 * page, page + 1) == GASNET_ERR_BAD_ARG);
    CHECK(create(memory + 7 * page, 1) == GASNET_ERR_BAD_ARG);
    munmap(memory, 7 * page);
    return test_finish();
}
