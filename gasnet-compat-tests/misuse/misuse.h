/* Programs that make one error, which their first argument selects. test_misuse.py reads the table,
 * runs each case, and checks the exit status and the messages of the job. */
#ifndef COMPAT_TESTS_MISUSE_H
#define COMPAT_TESTS_MISUSE_H

#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MISUSE_UNUSED __attribute__((unused))

static gex_TM_t tm MISUSE_UNUSED;
static gex_EP_t ep MISUSE_UNUSED;
static gex_Client_t client MISUSE_UNUSED;
static gex_Segment_t segment MISUSE_UNUSED;
static gex_Rank_t me MISUSE_UNUSED, np MISUSE_UNUSED;
static char *own MISUSE_UNUSED;  /* this rank's segment, 64 KiB */
static char *last MISUSE_UNUSED; /* the last rank's, as it addresses it */

/* Flavour "any": both. A pattern that begins with "=" is for a case that ends well. */
typedef struct {
    const char *name, *flavour; /* debug, any, or for one thread mode: debug-seq */
    int ranks;                  /* 0: before initialisation */
    const char *environment;    /* NAME=value words */
    const char *pattern;        /* a regular expression for the output */
    void (*run)(void);          /* on all ranks */
} misuse_case_t;
extern const misuse_case_t misuse_cases[]; /* ends with a null name */

static void misuse_still_alive(int number) {
    static const char text[] = "misuse: this rank is still alive\n";
    ssize_t ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    _exit(99);
}

MISUSE_UNUSED static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }
MISUSE_UNUSED static int first(void) { return me == 0; }
/* Unknown to the compiler, so that it does not warn of what is wrong on purpose. */
MISUSE_UNUSED static void *hidden(uintptr_t value) {
    static volatile uintptr_t box;
    box = value;
    return (void *)box;
}

#ifndef MISUSE_HANDLERS
#define MISUSE_HANDLERS \
    { 0, NULL, 0, 0, NULL, NULL }
#define MISUSE_HANDLER_COUNT 0
#endif

#define MISUSE_MAIN                                                                                \
    int main(int argc, char **argv) {                                                              \
        const misuse_case_t *c = misuse_cases;                                                     \
        gex_AM_Entry_t handlers[] = {MISUSE_HANDLERS};                                             \
        void *base = NULL;                                                                         \
        while (c->name && strcmp(c->name, argc > 1 ? argv[1] : "") != 0) c++;                      \
        if (!c->name) return 98;                                                                   \
        if (c->ranks == 0) { /* before there is a job */                                           \
            c->run();                                                                              \
            return c->pattern[0] != '=' ? 0 : 97;                                                  \
        }                                                                                          \
        if (gex_Client_Init(&client, &ep, &tm, "MISUSE", &argc, &argv, 0) != GASNET_OK) return 97; \
        signal(SIGALRM, misuse_still_alive);                                                       \
        alarm(15);                                                                                 \
        me = gex_TM_QueryRank(tm);                                                                 \
        np = gex_TM_QuerySize(tm);                                                                 \
        gex_EP_RegisterHandlers(ep, handlers, MISUSE_HANDLER_COUNT);                               \
        gex_Segment_Attach(&segment, tm, 65536);                                                   \
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, me, &base, NULL, NULL, 0));                  \
        own = (char *)base;                                                                        \
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, np - 1, &base, NULL, NULL, 0));              \
        last = (char *)base;                                                                       \
        barrier();                                                                                 \
        c->run();                                                                                  \
        if (c->pattern[0] != '=') {                                                                \
            fprintf(stderr, "misuse: rank %u went on\n", (unsigned)me);                            \
            for (;;) barrier();                                                                    \
        }                                                                                          \
        barrier();                                                                                 \
        fflush(stdout);                                                                            \
        gasnet_exit(0);                                                                            \
        return 0;                                                                                  \
    }

#endif
