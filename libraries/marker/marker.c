// marker.c: the part of a libgasnet that knows its thread mode and segment configuration. One core
// serves all; this object is compiled for each conduit, mode, segment configuration and flavour and
// linked into that library. It has the entry points that start a job, the symbol of the link-time
// check, and identity strings.
//
// It is compiled with GASNETI_BUILDING_LIBRARY, a thread mode, the include directory of the conduit
// and, for a debug library, GASNET_DEBUG: so gasnetex_build.h gives it the very names that a
// matching client refers to.

#include "gasnet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// The core's side. mode: 0 SEQ, 1 PARSYNC, 2 PAR. segments: 0 FAST, 1 LARGE, 2 EVERYTHING.
extern int gasneti_client_init_mode(int mode, int segments, gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                                    const char *client_name, int *argc, char ***argv, gex_Flags_t flags);
extern uint64_t gasneti_max_threads(void);
extern int gasneti_init_mode(int mode, int segments, int *argc, char ***argv);

int gasneti_Client_Init_checked(const struct gasneti_build_info *client, gex_Client_t *client_p, gex_EP_t *ep_p,
                                gex_TM_t *tm_p, const char *client_name, int *argc, char ***argv, gex_Flags_t flags);
int gasneti_init_checked(const struct gasneti_build_info *client, int *argc, char ***argv);

#define CONDUIT GASNETI_STR(GASNETI_CONDUIT_TOKEN)
#ifdef GASNET_DEBUG
#define DEBUG 1
#else
#define DEBUG 0
#endif
// The universal library takes the mode from its client; called without one, it must be safe for
// all.
#ifdef GASNETI_CONDUIT_ANY
#define OWN_MODE 2
#define ANY_MODE 1
#else
#define OWN_MODE GASNETI_MODE_NUMBER
#define ANY_MODE 0
#endif

// Never called for its result: a reference to it fails to link with any other libgasnet.
int GASNETI_LINK_CHECK(void) { return GASNETI_ABI; }

#define LIBRARY_IDENT(name, text) static const char ident_##name[] GASNETI_KEEP = "$GASNet" #name ": " text " $";
LIBRARY_IDENT(Config, "(libgasnet) " GASNET_CONFIG_STRING)
static const char ident_ConduitName[] GASNETI_KEEP
    GASNETI_ONCE(ConduitName) = "$GASNetConduitName: " GASNET_CONDUIT_NAME_STR " $";
LIBRARY_IDENT(CoreLibraryName, GASNET_CORE_NAME_STR)
LIBRARY_IDENT(CoreLibraryVersion, GASNET_CORE_VERSION_STR)

static const char *mode_name(uint32_t mode) {
    static const char *const names[] = {"GASNET_SEQ", "GASNET_PARSYNC", "GASNET_PAR"};
    return mode < 3 ? names[mode] : "an unknown thread mode";
}

static const char *flavour_name(uint32_t debug) { return debug ? "debug" : "release"; }

// Says what differs. 0 when nothing does. The strings of a client of another ABI may be anything:
// they are bounded.
static int differs(const struct gasneti_build_info *client, char *message, size_t room) {
    if (client->gasneti_size < sizeof *client || client->gasneti_abi != GASNETI_ABI) {
        return snprintf(message, room, "the program's headers have interface number %u, the library has %u",
                        client->gasneti_abi, (unsigned)GASNETI_ABI);
    }
    if (strncmp(client->gasneti_conduit, CONDUIT, sizeof client->gasneti_conduit) != 0) {
        return snprintf(message, room, "the program was compiled for the conduit %.16s, the library is for %s",
                        client->gasneti_conduit, CONDUIT);
    }
    if (!ANY_MODE && client->gasneti_mode != OWN_MODE) {
        return snprintf(message, room, "the program was compiled with %s, the library is for %s",
                        mode_name(client->gasneti_mode), mode_name(OWN_MODE));
    }
    if (client->gasneti_mode > 2) {
        return snprintf(message, room, "the program was compiled with %s", mode_name(client->gasneti_mode));
    }
    if (client->gasneti_debug != DEBUG) {
        return snprintf(message, room, "the program was compiled for the %s flavour, the library is the %s flavour",
                        flavour_name(client->gasneti_debug), flavour_name(DEBUG));
    }
    if (strncmp(client->gasneti_segment, GASNETI_SEGMENT_STR, sizeof client->gasneti_segment) != 0) {
        return snprintf(message, room,
                        "the program was compiled for GASNET_SEGMENT_%.16s, the library has GASNET_SEGMENT_%s",
                        client->gasneti_segment, GASNETI_SEGMENT_STR);
    }
    if (client->gasneti_pointer_bytes != sizeof(void *) || client->gasneti_hsl_bytes != sizeof(gex_HSL_t) ||
        client->gasneti_am_entry_bytes != sizeof(gex_AM_Entry_t) ||
        client->gasneti_token_info_bytes != sizeof(gex_Token_Info_t)) {
        return snprintf(message, room,
                        "the program's compiler lays out GASNet's structures differently (packing or enum options?)");
    }
    return 0;
}

// GASNET_OK, or GASNET_ERR_BAD_ARG and a message on stderr.
static int check(const struct gasneti_build_info *client) {
    char message[256];
    if (client == NULL) {
        return GASNET_OK;
    }
    if (differs(client, message, sizeof message) == 0) {
        return GASNET_OK;
    }
    fprintf(stderr,
            "*** GASNet: this program and libgasnet-%s do not match: %s. "
            "Compile it with the flags of the library that it is linked with.\n",
            CONDUIT, message);
    fflush(stderr);
    return GASNET_ERR_BAD_ARG;
}

static int mode_of(const struct gasneti_build_info *client) {
    return ANY_MODE && client != NULL ? (int)client->gasneti_mode : OWN_MODE;
}

int gasneti_Client_Init_checked(const struct gasneti_build_info *client, gex_Client_t *client_p, gex_EP_t *ep_p,
                                gex_TM_t *tm_p, const char *client_name, int *argc, char ***argv, gex_Flags_t flags) {
    const int result = check(client);
    if (result != GASNET_OK) {
        return result;
    }
    return gasneti_client_init_mode(mode_of(client), GASNETI_SEGMENT_NUMBER, client_p, ep_p, tm_p, client_name, argc,
                                    argv, flags);
}

int gasneti_init_checked(const struct gasneti_build_info *client, int *argc, char ***argv) {
    const int result = check(client);
    return result != GASNET_OK ? result : gasneti_init_mode(mode_of(client), GASNETI_SEGMENT_NUMBER, argc, argv);
}

// Answers before initialisation, too, when the core does not know the mode yet.
uint64_t gex_System_QueryMaxThreads(void) { return OWN_MODE == 0 ? 1 : gasneti_max_threads(); }

// For callers without a C preprocessor.
int gex_Client_Init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p, const char *clientName, int *argc,
                    char ***argv, gex_Flags_t flags) {
    return gasneti_client_init_mode(OWN_MODE, GASNETI_SEGMENT_NUMBER, client_p, ep_p, tm_p, clientName, argc, argv,
                                    flags);
}

int gasnet_init(int *argc, char ***argv) { return gasneti_init_mode(OWN_MODE, GASNETI_SEGMENT_NUMBER, argc, argv); }

// -- GASNETT_TRACE_PRINTF and the like: variadic, which Rust cannot define. They format only what
// will be written.

// src/abi/trace.rs
extern void gasnetti_trace_note(int which, int forced, const char *text);

#define NOTE_BYTES 4096
static void note(int which, int forced, const char *format, va_list args) {
    char text[NOTE_BYTES];
    const int length = vsnprintf(text, sizeof text, format, args);
    if (length < 0) {
        snprintf(text, sizeof text, "(message could not be formatted) %s", format);
    } else if ((size_t)length >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    gasnetti_trace_note(which, forced, text);
}

#define NOTE_FUNCTION(name, which, forced)                \
    void name(const char *format, ...) {                  \
        va_list args;                                     \
        if (!gasnetti_trace_takes_notes(which, forced)) { \
            return;                                       \
        }                                                 \
        va_start(args, format);                           \
        note(which, forced, format, args);                \
        va_end(args);                                     \
    }
NOTE_FUNCTION(gasnetti_trace_printf, 0, 0)
NOTE_FUNCTION(gasnetti_trace_printf_force, 0, 1)
NOTE_FUNCTION(gasnetti_stats_printf, 1, 0)
NOTE_FUNCTION(gasnetti_stats_printf_force, 1, 1)
