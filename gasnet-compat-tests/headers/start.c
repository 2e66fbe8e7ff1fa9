// Starts as a client does; or, with FOREIGN, hands over the build information of another build. See
// run.sh.
#include <gasnet.h>

#include <stdio.h>

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    int result;
#ifdef FOREIGN
    struct gasneti_build_info info = gasneti_this_build();
    FOREIGN;
    result = gasneti_Client_Init_checked(&info, &client, &ep, &tm, "START", &argc, &argv, 0);
    (void)gasneti_init_checked;
#else
    result = gex_Client_Init(&client, &ep, &tm, "START", &argc, &argv, 0) | gasnet_init(&argc, &argv) |
             (gex_Client_Init)(&client, &ep, &tm, "DIRECT", &argc, &argv, 0);
#endif
    printf("%s\n", result == GASNET_OK ? "ok" : result == GASNET_ERR_BAD_ARG ? "bad argument" : "?");
    return 0;
}
