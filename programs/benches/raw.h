/* Measurements between two processes of this host over a library alone, without GASNet: what
 * programs/benches/ucx.c and mpi.c share. */
#include <stdbool.h>
#include <stddef.h>

enum {
    LARGEST = 4 << 20, /* bytes of a message, put or get */
    WINDOW = 8         /* outstanding large puts */
};

/* Of each program: */
void poll_library(void);         /* adds to `received` */
void send_message(size_t bytes); /* returns when the source is free */
/* Return when the operation is complete, a put at the target. */
void put_whole(size_t bytes), get_whole(size_t bytes), add_one(size_t bytes);
/* Start an operation in a slot below WINDOW, and complete it; a put locally. */
void put(size_t bytes, int slot), get(size_t bytes, int slot), complete(int slot);
/* Completes all puts at the target. */
void flush(void);

/* Of raw.c: */
struct options {
    bool yield, wakeup;
    long rounds;
};
extern struct options options;
extern int rank;      /* 0 measures, 1 serves */
extern long received; /* messages, since the start */

/* Options -y and -n, and -w if `has_wakeup`; sets an alarm that ends a process that hangs. */
void read_options(int argc, char **argv, const char *name, bool has_wakeup);
/* Waits for `count` more messages. */
void receive(long count);
/* Measures everything. Both processes have exchanged a message. */
void measure(void);
