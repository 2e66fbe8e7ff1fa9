// A rank stops (SIGSTOP) between Prepare and Commit, with a buffer of the library in its hands. The
// others exchange maximal Mediums and replies meanwhile, and only then let it go on; its message
// arrives whole.
// A NIC that is a thread stops with its process, and what it has not sent: not over loop.
// CONDUITS: smp sock udp any
// NP: 3 4
// TIMEOUT: 60
#include "stress.h"

enum { ASK = 200, ANSWER = 201, LATE = 202, DONE = 203, LATE_BYTES = 4000, COUNT = 300 };
static int asked, answered, done, late;

static void on_ask(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECKF(stress_same(payload, bytes, (uint64_t)seed), "request %d is damaged", (int)seed);
    gex_AM_ReplyMedium1(token, ANSWER, payload, bytes, GEX_EVENT_NOW, 0, seed);
}
static void on_answer(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECKF(stress_same(payload, bytes, (uint64_t)seed), "answer %d is damaged", (int)seed);
    ATOMIC_ADD(&answered, 1);
}
static void on_late(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECKF(bytes == LATE_BYTES && stress_same(payload, bytes, (uint64_t)seed), "%s", "the late message is damaged");
    ATOMIC_ADD(&late, 1);
}
static void on_done(gex_Token_t token) { ATOMIC_ADD(&done, 1); }

/* Whether process `pid` is stopped. */
static int is_stopped(pid_t pid) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    char *after = strrchr(text, ')');
    return after && after[1] == ' ' && after[2] == 'T';
}

/* Rank 1 stops. Its prepared message is for rank 0. */
static void stop_half_way(void) {
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, 0, NULL, LATE_BYTES, LATE_BYTES, NULL, 0, 1);
    REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
    stress_fill(gex_AM_SrcDescAddr(sd), LATE_BYTES / 2, 99);
    raise(SIGSTOP);
    stress_fill(gex_AM_SrcDescAddr(sd), LATE_BYTES, 99);
    gex_AM_CommitRequestMedium1(sd, LATE, LATE_BYTES, 99);
}

static void go_on_without(pid_t stopped) {
    size_t bytes = gex_AM_LUBRequestMedium();
    if (bytes > gex_AM_LUBReplyMedium()) bytes = gex_AM_LUBReplyMedium();
    char *buffer = (char *)malloc(bytes);
    while (!is_stopped(stopped)) gasnet_AMPoll();
    for (int i = 0; i < COUNT; i++)
        for (gex_Rank_t r = 0; r < np; r++) {
            if (r == 1) continue;
            stress_fill(buffer, bytes, (uint64_t)i);
            asked++;
            gex_AM_RequestMedium1(tm, r, ASK, buffer, bytes, GEX_EVENT_NOW, 0, i);
        }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == asked);
    gex_AM_RequestShort0(tm, 0, DONE, 0);
    if (me == 0) {
        GASNET_BLOCKUNTIL(ATOMIC_GET(&done) == (int)np - 1);
        CHECK(is_stopped(stopped) && ATOMIC_GET(&late) == 0);
        kill(stopped, SIGCONT);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&late) == 1);
    }
    free(buffer);
}

int main(int argc, char **argv) {
    test_init("stopped_sender", &argc, &argv);
    register_handler(ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1);
    register_handler(LATE, (gex_AM_Fn_t)on_late, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    register_handler(DONE, (gex_AM_Fn_t)on_done, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    share_setup();
    pid_t pid = getpid(); /* after initialisation, which may have forked */
    pid = *SHARED(pid_t, share(&pid, sizeof pid), 1);
    PHASE("one rank stands still");
    if (me == 1) stop_half_way();
    else go_on_without(pid);
    barrier();
    return test_finish();
}
