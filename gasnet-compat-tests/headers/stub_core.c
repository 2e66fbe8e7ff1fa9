// Stands in for the library's core behind libraries/marker/marker.c, so that the link-time and
// start-up checks can be tested without it.
#include <gasnet.h>

#include <stdio.h>

uint64_t gasneti_max_threads(void);
int gasneti_client_init_mode(int mode, int segments, gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                             const char *name, int *argc, char ***argv, gex_Flags_t flags);
int gasneti_init_mode(int mode, int segments, int *argc, char ***argv);

uint64_t gasneti_max_threads(void) { return 4; }
int gasneti_client_init_mode(int mode, int segments, gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                             const char *name, int *argc, char ***argv, gex_Flags_t flags) {
    (void)client_p, (void)ep_p, (void)tm_p, (void)argc, (void)argv, (void)flags;
    printf("core: mode %d, client %s, segments %d\n", mode, name, segments);
    return GASNET_OK;
}

int gasneti_init_mode(int mode, int segments, int *argc, char ***argv) {
    (void)argc, (void)argv;
    printf("core: mode %d, GASNet-1, segments %d\n", mode, segments);
    return GASNET_OK;
}

// The marker formats the client's notes for a core that takes them; this one takes none.
void gasnetti_trace_note(int which, int forced, const char *text);
void gasnetti_trace_note(int which, int forced, const char *text) {
    (void)which;
    (void)forced;
    (void)text;
}

int gasnetti_trace_takes_notes(int which, int forced) {
    (void)which;
    (void)forced;
    return 0;
}
