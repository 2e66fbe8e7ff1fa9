// Stands in for the library's core behind marker/marker.c, so that the link-time and start-up checks can be tested without it.
#include <gasnet.h>

#include <stdio.h>

int gasneti_client_init_mode(int mode, int segments, gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p, const char *name,
                             int *argc, char ***argv, gex_Flags_t flags);
int gasneti_init_mode(int mode, int segments, int *argc, char ***argv);

int gasneti_client_init_mode(int mode, int segments, gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p, const char *name,
                             int *argc, char ***argv, gex_Flags_t flags) {
    (void)client_p, (void)ep_p, (void)tm_p, (void)argc, (void)argv, (void)flags;
    printf("core: mode %d, client %s, segments %d\n", mode, name, segments);
    return GASNET_OK;
}

int gasneti_init_mode(int mode, int segments, int *argc, char ***argv) {
    (void)argc, (void)argv;
    printf("core: mode %d, GASNet-1, segments %d\n", mode, segments);
    return GASNET_OK;
}
