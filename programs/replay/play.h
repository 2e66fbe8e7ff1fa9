/* gasnet_replay: what the order of a replay (play.c) and its calls (operations.c) share. */
#ifndef GASNET_REPLAY_PLAY_H
#define GASNET_REPLAY_PLAY_H

#include "replay.h"

#include <pthread.h>

extern gex_Rank_t me, np;
extern struct options options;
extern struct plan plan;

/* An operation that its thread has not synchronised. */
struct pending {
    gex_Event_t event;
    const struct record *put; /* NULL: something else */
    uint64_t seed;
};
/* A barrier or collective that this thread has started for its process. */
struct open {
    const struct record *record; /* its begin */
    gex_Event_t event;           /* not of a GASNet-1 barrier */
    uint64_t *from, *to;         /* contents; NULL: none */
};
enum { MOST_OPEN = 64 };
struct thread {
    pthread_t id;
    struct rank *rank;
    unsigned number;
    uint64_t random;
    size_t at, cursor;           /* records: under way; up to which all has happened */
    const struct record *awaits; /* NULL: it is in the call, or has finished */
    int has_finished, holds;     /* the lock of its rank */
    struct pending *pending;
    size_t first, count, room; /* of `pending` */
    struct open open[MOST_OPEN];
    unsigned opened;
    uint32_t puts;
    char *sink, *back; /* of recorded gets; of those that verify puts */
};

/* play.c */
void advance(void);      /* notes that there is progress */
void note_arrival(void); /* of a message whose handler has ended */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t next_random(uint64_t *state);
void spin(uint64_t us);

/* operations.c */
void attach(gex_EP_t ep); /* handlers, the segment, and the domain of atomics. Collective */
void perform(struct thread *thread, const struct record *record);
void finish(struct thread *thread, int what); /* waits for operations: EVENT, SOME, ALL, IMPLICIT */
void clear_atomics(unsigned rank);
void check_atomics(void);

/* collectives.c */
void make_teams(void);                        /* Collective */
int is_left_out(const struct record *record); /* for the number of ranks */
void start_collective(struct open *open, const struct record *record);
int is_over(struct open *open); /* then its contents are verified and freed */

#endif
