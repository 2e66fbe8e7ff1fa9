// All-to-all flood of Shorts with 0 to 16 arguments, answered by Shorts; then IMMEDIATE requests
// until each is taken.
// NP: 1 2 4 16
// TIMEOUT: 120
// VARIANT: small (the smallest buffers that can be configured)
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
#include "stress.h"

enum { ONE = 200, SIXTEEN = 201, ANSWER = 202 };
static int64_t answers;

static void on_one(gex_Token_t token, gex_AM_Arg_t value) { gex_AM_ReplyShort1(token, ANSWER, 0, value); }

static void on_sixteen(gex_Token_t token, gex_AM_Arg_t a0, gex_AM_Arg_t a1, gex_AM_Arg_t a2, gex_AM_Arg_t a3,
                       gex_AM_Arg_t a4, gex_AM_Arg_t a5, gex_AM_Arg_t a6, gex_AM_Arg_t a7, gex_AM_Arg_t a8,
                       gex_AM_Arg_t a9, gex_AM_Arg_t a10, gex_AM_Arg_t a11, gex_AM_Arg_t a12, gex_AM_Arg_t a13,
                       gex_AM_Arg_t a14, gex_AM_Arg_t a15) {
    CHECKF(a1 == a0 + 1 && a2 == a0 + 2 && a3 == a0 + 3 && a4 == a0 + 4 && a5 == a0 + 5 && a6 == a0 + 6 &&
               a7 == a0 + 7 && a8 == a0 + 8 && a9 == a0 + 9 && a10 == a0 + 10 && a11 == a0 + 11 && a12 == a0 + 12 &&
               a13 == a0 + 13 && a14 == a0 + 14 && a15 == a0 + 15,
           "an argument of message %d is wrong", (int)a0);
    gex_AM_ReplyShort1(token, ANSWER, 0, a0);
}

static void on_answer(gex_Token_t token, gex_AM_Arg_t value) { ATOMIC_ADD(&answers, (int64_t)1); }

static void flood(int thread) {
    int count = stress_share(8000, 200);
    for (int i = 0; i < count; i++)
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t to = (me + (gex_Rank_t)thread + r) % np;
            int a = i;
            if (i % 2) gex_AM_RequestShort1(tm, to, ONE, 0, a);
            else
                gex_AM_RequestShort16(tm, to, SIXTEEN, 0, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8,
                                      a + 9, a + 10, a + 11, a + 12, a + 13, a + 14, a + 15);
        }
}

static void flood_immediate(int thread) {
    int count = stress_share(2000, 50);
    for (int i = 0; i < count; i++)
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t to = (me + (gex_Rank_t)thread + r) % np;
            while (gex_AM_RequestShort1(tm, to, ONE, GEX_FLAG_IMMEDIATE, i) != 0) gasnet_AMPoll();
        }
}

int main(int argc, char **argv) {
    test_init("flood_short", &argc, &argv);
    register_handler(ONE, (gex_AM_Fn_t)on_one, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1);
    register_handler(SIXTEEN, (gex_AM_Fn_t)on_sixteen, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 16);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1);
    barrier();
    PHASE("flood");
    stress_run(flood);
    int64_t expected = (int64_t)stress_share(8000, 200) * np * STRESS_THREADS;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answers) == expected);
    barrier();
    PHASE("IMMEDIATE requests");
    stress_run(flood_immediate);
    expected += (int64_t)stress_share(2000, 50) * np * STRESS_THREADS;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answers) == expected);
    barrier();
    CHECK(answers == expected);
    return test_finish();
}
