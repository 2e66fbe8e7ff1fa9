// Without the vendor's library a class is not available: GASNET_ERR_BAD_ARG for each, and a message
// with the library's name, the loader's error, what to install and how to name another library. The
// same for a file that is something else.
// NP: 1 2
// ENV: GASNET_CUDA_LIBRARY=libgasnet-no-cuda.so.1 GASNET_HIP_LIBRARY=/nonexistent/libgasnet-no-hip.so GASNET_ZE_LIBRARY=libc.so.6
// FLAGS: -DGASNET_HAVE_MK_CLASS_HIP=1
#include "check.h"

#include <gasnet_mk.h>

static char said[4096];

/* Creates a kind, and keeps what goes to stderr meanwhile. */
static int create(gex_MK_Create_args_t *args) {
    gex_MK_t kind = GEX_MK_INVALID;
    int kept = dup(2), ends[2];
    fflush(stderr);
    REQUIRE(kept >= 0 && pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    int result = gex_MK_Create(&kind, client, args, 0);
    REQUIRE(dup2(kept, 2) == 2);
    close(kept);
    close(ends[1]);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    CHECK(kind == GEX_MK_INVALID);
    return result;
}
#define SAID(word) CHECKF(strstr(said, word) != NULL, "it says: %s", said)

int main(int argc, char **argv) {
    gex_MK_Create_args_t args;
    int nothing = 0;
    test_init("mk_missing", &argc, &argv);
    memset(&args, 0, sizeof args);
#if __has_include(<cuda.h>) ? !GASNET_HAVE_MK_CLASS_CUDA_UVA : defined(GASNET_HAVE_MK_CLASS_CUDA_UVA)
#error "clients include cuda.h where this says so"
#endif
#if __has_include(<level_zero/ze_api.h>) ? !GASNET_HAVE_MK_CLASS_ZE : defined(GASNET_HAVE_MK_CLASS_ZE)
#error "clients include level_zero/ze_api.h where this says so"
#endif
    CHECK(GASNET_HAVE_MK_CLASS_HIP == 1 && GASNET_HAVE_MK_CLASS_MULTIPLE == 1); /* as the command line says */
    args.gex_class = GEX_MK_CLASS_CUDA_UVA;
    CHECK(create(&args) == GASNET_ERR_BAD_ARG);
    SAID("gex_MK_Create");
    SAID("libgasnet-no-cuda.so.1");
    SAID("cannot open shared object file");
    SAID("NVIDIA's driver");
    SAID("GASNET_CUDA_LIBRARY");
    args.gex_class = GEX_MK_CLASS_HIP;
    CHECK(create(&args) == GASNET_ERR_BAD_ARG);
    SAID("/nonexistent/libgasnet-no-hip.so");
    SAID("ROCm");
    SAID("GASNET_HIP_LIBRARY");
    args.gex_class = GEX_MK_CLASS_ZE;
    args.gex_args.gex_class_ze.gex_zeDevice = &nothing;
    args.gex_args.gex_class_ze.gex_zeContext = &nothing;
    CHECK(create(&args) == GASNET_ERR_BAD_ARG);
    SAID("libc.so.6");
    SAID("zeInit");
    SAID("Level Zero");
    gex_System_SetVerboseErrors(0);
    CHECK(create(&args) == GASNET_ERR_BAD_ARG && said[0] == 0);
    return test_finish();
}
