// gasnet_ErrorName and gasnet_ErrorDesc of every code and of codes that do not exist.
// NP: 1
// TIMEOUT: 30
#include "check1.h"

#define NAME(code) CHECKF(!strcmp(gasnet_ErrorName(code), #code), "is called %s", gasnet_ErrorName(code))

int main(int argc, char **argv) {
    const int codes[] = {GASNET_OK,          GASNET_ERR_NOT_INIT,  GASNET_ERR_RESOURCE,
                         GASNET_ERR_BAD_ARG, GASNET_ERR_NOT_READY, GASNET_ERR_BARRIER_MISMATCH};
    gasnet1_init("errors", &argc, &argv);
    gasnet1_attach(NULL, 0, 4096);
    NAME(GASNET_OK);
    NAME(GASNET_ERR_NOT_INIT);
    NAME(GASNET_ERR_RESOURCE);
    NAME(GASNET_ERR_BAD_ARG);
    NAME(GASNET_ERR_NOT_READY);
    NAME(GASNET_ERR_BARRIER_MISMATCH);
    CHECK(GASNET_OK == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(codes); i++) {
        CHECK(strlen(gasnet_ErrorDesc(codes[i])) > 3);
        for (size_t j = 0; j < i; j++)
            CHECK(codes[i] != codes[j] && strcmp(gasnet_ErrorDesc(codes[i]), gasnet_ErrorDesc(codes[j])));
    }
    for (size_t i = 0; i < 3; i++) {
        const int unknown[] = {-1, 1, 10999};
        CHECK(gasnet_ErrorName(unknown[i]) && gasnet_ErrorName(unknown[i])[0]);
        CHECK(gasnet_ErrorDesc(unknown[i]) && gasnet_ErrorDesc(unknown[i])[0]);
    }
    return test_finish();
}
