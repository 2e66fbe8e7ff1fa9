/* gasnet_replay: shared declarations. docs/recording.md describes recordings, and how they are
 * replayed. The program uses public GASNet interfaces only, in thread mode PAR. */
#ifndef GASNET_REPLAY_H
#define GASNET_REPLAY_H

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnetex.h>

#include <pthread.h>
#include <stdio.h>

/* Kinds of records. */
enum {
    GET = 1,
    GET_NB,
    GET_NBI,
    GET_VAL,
    GET_VECTOR,
    GET_INDEXED,
    GET_STRIDED,
    PUT,
    PUT_NB,
    PUT_NBI,
    PUT_VAL,
    PUT_NB_VAL,
    PUT_NBI_VAL,
    PUT_VECTOR,
    PUT_INDEXED,
    PUT_STRIDED,
    ATOMIC_NB,
    ATOMIC_NBI,
    TEST,
    WAIT,
    COLL_START,
    COLL_DONE,
    BARRIER_NOTIFY,
    BARRIER_WAIT,
    BARRIER_START = 26,
    BARRIER_DONE,
    REQUEST_SHORT = 31,
    REQUEST_MEDIUM,
    REQUEST_LONG,
    REPLY_SHORT,
    REPLY_MEDIUM,
    REPLY_LONG,
    RAN_REQUEST_SHORT,
    RAN_REQUEST_MEDIUM,
    RAN_REQUEST_LONG,
    RAN_REPLY_SHORT,
    RAN_REPLY_MEDIUM,
    RAN_REPLY_LONG,
    POLL,
    TEAM = 45,
    CONTENTS = 252,
    CHECKSUM,
    TIME,
    WIDE
};
/* What an event is of: code of TEST and WAIT. */
enum { EVENT, SOME, ALL, IMPLICIT };
/* What a collective is: code of COLL_START and COLL_DONE. Others have higher numbers. */
enum { BROADCAST = 1, REDUCE_TO_ONE, REDUCE_TO_ALL };
enum { ARGUMENTS = 31, IMMEDIATE = 32, OUTSIDE = 64 }; /* flags */
enum { NO_PEER = 0xffff, HANDLERS = 128, FIRST_HANDLER = 128 };

/* A record with what belongs to it. */
struct record {
    uint64_t at; /* nanoseconds from the start of its rank */
    uint64_t bytes, offset;
    uint32_t polls;  /* of its thread before it */
    uint32_t number; /* in its file; in a plan of a run in its channel, of a barrier's series; of a unit (reduce.c) */
    uint16_t peer;
    uint8_t kind, code, flags, thread, has_checksum;
    uint64_t checksum;
    unsigned char *contents; /* arguments and payload; NULL: not wanted, not recorded, or incomplete */
};

/* file.c: the recording of a rank. The functions end the program if they fail. */
struct recording {
    unsigned char header[4096];
    unsigned rank, ranks;
    int is_cut; /* the beginning is missing */
    size_t count;
    struct record *records;
};
extern int wants_contents;                                  /* of records */
struct recording *load(const char *pattern, unsigned rank); /* NULL: of the model */
struct recording *new_recording(unsigned rank, unsigned ranks);
void store(const char *pattern, const struct recording *recording);
void file_name(char *name, size_t size, const char *pattern, unsigned rank);
const char *name_of(int kind);
int is_send(int kind);
int is_run(int kind);
int is_reply(int kind);                      /* of both */
int is_marker(int kind);                     /* a run, or the end of a barrier or collective: calls wait for it */
int is_start(int kind);                      /* of a barrier or collective */
int is_of_team(const struct record *record); /* a barrier or collective of one, or a member */
/* The number of a barrier or collective in its series, and the bytes of a collective. */
uint32_t place_of(const struct record *record);
uint32_t bytes_of(const struct record *record);
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn)); /* exit status 2 */
void *allocate(size_t count, size_t size);                                           /* zeros */

/* The run that belongs to the first message, of `ran` runs and `sent` messages of a channel that
 * were recorded. Runs without a message come first: the beginning of the source is missing. */
uint32_t first_run(uint32_t ran, uint32_t sent);

/* The options of a replay. */
struct options {
    double speed; /* 0: without pauses */
    unsigned long jitter;
    unsigned long repeat;
    int is_until_fail, is_checked;
    int is_locked;   /* the threads of a rank call under one lock */
    int is_unmapped; /* payloads lie in memory that is unmapped after the call */
    double limit;    /* seconds without progress, and for a run of a reduction */
};

/* model.c */
struct model {
    const char *name; /* NULL: none */
    unsigned ranks;   /* 0: as many as the job has */
    uint64_t seed;
    size_t calls;
};
void model_options(const struct model *model, struct options *options); /* those of a runtime of its kind */
void make_model(const struct model *model);
struct recording *modelled(unsigned rank); /* a copy */

/* plan.c: what all recordings together say about the ranks that this process plays. */
struct channel {                     /* messages of one source, way (0: request, 1: reply) and handler to a rank */
    uint32_t expected, begun, ended; /* in a replay */
    uint32_t ran;                    /* in the recording */
    uint32_t first;                  /* first_run */
    const struct record **replies;   /* by run; NULL: none */
    unsigned char *seen;             /* bits by message */
};
typedef struct channel channels[2][HANDLERS];
typedef uint32_t counts[2][HANDLERS];
struct rank {
    struct recording *recording;
    unsigned threads;
    channels *from;    /* by source */
    counts *sent;      /* by target: in the recording until the plan is made, then in the replay */
    uint32_t *entered; /* last place, by series */
    uint64_t atomics;  /* on this rank's memory, in one replay */
    pthread_mutex_t lock;
};
/* Barriers of GASNet-1, or barriers and collectives of a team, in the order in which members begin
 * them. Places are counted from 1. */
enum { SPLIT_PHASE, PRIMORDIAL }; /* numbers of the first two; then those of other teams */
struct series {
    uint64_t team;
    unsigned size, known; /* members: all, and of those in `members` */
    uint16_t *members;    /* NULL: all ranks */
    uint32_t most;        /* places that the arrays have room for */
    uint32_t *begun;      /* by place: ranks in the recording */
    uint32_t *entered;    /* by place: local ranks in a replay */
    unsigned char *done;  /* by place, in a replay */
    gex_TM_t tm;
};
struct form { /* of a handler */
    int is_used, is_short;
    unsigned arguments;
};
struct plan {
    unsigned ranks;
    int is_cut;
    uint64_t first_at, last_at;
    size_t data, outside, most; /* bytes: extent in a segment, largest operation outside it, largest one */
    struct form forms[HANDLERS];
    struct series *series;
    uint32_t series_count;
    struct rank **local; /* by recorded rank; NULL: another process plays it */
    unsigned threads;    /* of all local ranks */
    uint64_t messages;   /* that arrive here in one replay */
};
unsigned count_ranks(const char *pattern);
void make_plan(struct plan *plan, const char *pattern, int (*is_local)(unsigned rank));
int is_common(const struct series *series, uint32_t place); /* whether all members begin it */

/* payload.c: contents name their message from 8 bytes on, and their channel else. */
uint64_t stamp(unsigned source, int way, int handler, uint32_t number);
void fill(void *to, size_t bytes, uint64_t stamp);
int is_filled(const void *at, size_t bytes, uint64_t stamp);

/* calls.c */
struct message {
    int kind;
    gex_Token_t token; /* of a reply */
    gex_Rank_t target; /* of a request */
    gex_Flags_t flags;
    gex_AM_Index_t handler;
    unsigned arguments;
    void *payload, *to;
    size_t bytes;
};
int send_message(const struct message *message, gex_AM_Arg_t first);
gex_AM_Fn_t handler_for(const struct form *form);

/* operations.c */
void arrived(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t ranks);

/* play.c */
extern gex_TM_t tm;
int play(const char *pattern, struct model *model, const struct options *options, int *argc, char ***argv);

/* compare.c: compares the checksums of messages and of the runs of handlers. Returns the exit
 * status. */
int compare(const char *pattern);

/* reduce.c: writes a smaller recording with which the command fails: within the limit in seconds,
 * or also by not ending. Returns the exit status. */
int reduce(const char *from, const char *to, char **command, double limit, int is_endless);

#endif
