/* Recordings as files: a header and a ring of records. In memory, records are in the order of their
 * times, and each holds its time, the polls before it, and numbers of any size. */
#include "replay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER = 4096, RECORD = 16, VERSION = 2, CUT = 1, WORD = 8, MOST_RANKS = 0xffff, MOST_POLLS = 1 << 30 };
enum { CAPACITY = 4, WRITTEN }; /* words of the header */
#define MOST_BYTES ((uint64_t)1 << 56)
enum { UNIT_NS = 16, MOST_GAP = 0xffff, PIECE = 12, OTHER_THREADS = 255 };

int wants_contents;

void wrong(const char *format, ...) {
    char text[5000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gasnet_replay: %s\n", text);
    exit(2);
}

void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (memory == NULL) wrong("there is not enough memory: %zu bytes", count * size);
    return memory;
}

int is_send(int kind) { return kind >= REQUEST_SHORT && kind <= REPLY_LONG; }
int is_run(int kind) { return kind >= RAN_REQUEST_SHORT && kind <= RAN_REPLY_LONG; }
int is_marker(int kind) { return is_run(kind) || kind == BARRIER_WAIT || kind == BARRIER_DONE || kind == COLL_DONE; }
int is_start(int kind) { return kind == BARRIER_NOTIFY || kind == BARRIER_START || kind == COLL_START; }
int is_of_team(const struct record *r) {
    return r->kind == TEAM ||
           (r->kind >= COLL_START && r->kind <= BARRIER_DONE && r->kind != BARRIER_NOTIFY && r->kind != BARRIER_WAIT);
}
uint32_t place_of(const struct record *record) { return (uint32_t)record->bytes; }
uint32_t bytes_of(const struct record *record) { return (uint32_t)(record->bytes >> 32); }
int is_reply(int kind) { return (kind - REQUEST_SHORT) / 3 % 2; }

const char *name_of(int kind) {
    static const char *const names[] = {"record",
                                        "GET",
                                        "GET_NB",
                                        "GET_NBI",
                                        "GET_VAL",
                                        "GET_VECTOR",
                                        "GET_INDEXED",
                                        "GET_STRIDED",
                                        "PUT",
                                        "PUT_NB",
                                        "PUT_NBI",
                                        "PUT_VAL",
                                        "PUT_NB_VAL",
                                        "PUT_NBI_VAL",
                                        "PUT_VECTOR",
                                        "PUT_INDEXED",
                                        "PUT_STRIDED",
                                        "ATOMIC_NB",
                                        "ATOMIC_NBI",
                                        "TEST",
                                        "WAIT",
                                        "COLL_START",
                                        "COLL_DONE",
                                        "BARRIER_NOTIFY",
                                        "BARRIER_WAIT",
                                        "BARRIER_TRY",
                                        "BARRIER_START",
                                        "BARRIER_DONE",
                                        "LOCK",
                                        "TRYLOCK",
                                        "UNLOCK",
                                        "REQUEST_SHORT",
                                        "REQUEST_MEDIUM",
                                        "REQUEST_LONG",
                                        "REPLY_SHORT",
                                        "REPLY_MEDIUM",
                                        "REPLY_LONG",
                                        "RAN_REQUEST_SHORT",
                                        "RAN_REQUEST_MEDIUM",
                                        "RAN_REQUEST_LONG",
                                        "RAN_REPLY_SHORT",
                                        "RAN_REPLY_MEDIUM",
                                        "RAN_REPLY_LONG",
                                        "POLL"};
    return kind == TEAM ? "CREATE" : names[kind > 0 && kind <= POLL ? kind : 0];
}

void file_name(char *name, size_t size, const char *pattern, unsigned rank) {
    size_t used = 0;
    const char *at;
    for (at = pattern; *at != '\0' && used + 12 < size; at++) {
        if (*at == '%') used += (size_t)snprintf(name + used, size - used, "%u", rank);
        else name[used++] = *at;
    }
    name[used] = '\0';
}

static uint32_t number_at(const unsigned char *header, size_t byte) {
    uint32_t number;
    memcpy(&number, header + byte, sizeof number);
    return number;
}

static void read_header(struct recording *r, const char *name, FILE *file, uint64_t *capacity, uint64_t *written) {
    if (fread(r->header, 1, HEADER, file) != HEADER || memcmp(r->header, "GASNETRC", WORD) != 0)
        wrong("%s is not a recording of GASNET_RECORD", name);
    if (number_at(r->header, 8) != VERSION || number_at(r->header, 12) != HEADER || number_at(r->header, 16) != RECORD)
        wrong("%s is a recording of format %u, or of another byte order; this program reads format %d", name,
              (unsigned)number_at(r->header, 8), VERSION);
    r->rank = number_at(r->header, 24);
    r->ranks = number_at(r->header, 28);
    memcpy(capacity, r->header + CAPACITY * WORD, WORD);
    memcpy(written, r->header + WRITTEN * WORD, WORD);
    if (r->ranks > MOST_RANKS || r->rank >= r->ranks || *capacity == 0 || (*capacity & (*capacity - 1)) != 0 ||
        *capacity > ((uint64_t)1 << 40))
        wrong("%s is damaged: its header is not valid", name);
    r->is_cut = (number_at(r->header, 20) & CUT) || *written > *capacity;
}

/* Whether a barrier or collective has a number that memory has room for, and an operation a place
 * that an address can name. */
static int has_place(const struct record *r) {
    int is_barrier =
        r->kind == BARRIER_NOTIFY || r->kind == BARRIER_WAIT || r->kind == BARRIER_START || r->kind == BARRIER_DONE;
    if (is_barrier || r->kind == COLL_START || r->kind == COLL_DONE)
        return place_of(r) > 0 && place_of(r) <= 1u << 30 && !(is_barrier && bytes_of(r) > 0);
    return is_of_team(r) || (r->bytes <= MOST_BYTES && r->offset <= MOST_BYTES);
}

static void damaged(const char *name, uint64_t number) {
    wrong("%s is damaged: record %llu is not valid", name, (unsigned long long)number);
}

/* By time. Those of a thread remain in their order. */
static int by_time(const void *one, const void *other) {
    const struct record *a = one, *b = other;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Pieces of contents of a thread's next record. */
struct pieces {
    unsigned char *bytes;
    size_t count, room;
};
static void add_piece(struct pieces *pieces, const uint64_t *words) {
    size_t bytes = words[0] >> 8 & 0xff, i;
    if (!wants_contents || bytes > PIECE) return;
    if (pieces->count + PIECE > pieces->room) {
        pieces->room = 2 * pieces->room + 64;
        pieces->bytes = realloc(pieces->bytes, pieces->room);
        if (pieces->bytes == NULL) wrong("there is not enough memory for %zu bytes of contents", pieces->room);
    }
    for (i = 0; i < bytes; i++)
        pieces->bytes[pieces->count++] = (unsigned char)(i < 4 ? words[0] >> (32 + 8 * i) : words[1] >> (8 * i - 32));
}

/* The contents, if the ring has all of them. */
static unsigned char *take_contents(struct pieces *pieces, const struct record *record) {
    static const struct pieces none;
    unsigned char *bytes = pieces->bytes;
    int is_message = is_send(record->kind) || is_run(record->kind);
    if (pieces->count != record->bytes + 4u * (is_message ? record->flags & ARGUMENTS : 0)) {
        free(bytes);
        bytes = NULL;
    }
    *pieces = none;
    return bytes;
}

/* Adds what the file has as records of their own to those of the same thread that follow. */
static void read_records(struct recording *r, const char *name, FILE *file, uint64_t capacity, uint64_t written) {
    uint64_t times[256] = {0}, polls[256] = {0}, wide[256] = {0}, lost = 0;
    uint64_t first = written > capacity ? written - capacity : 0, number;
    uint64_t checksums[256];
    struct pieces pieces[256] = {{0}};
    unsigned char is_known[256] = {0}, has_checksum[256] = {0};
    size_t kept = 0;
    r->records = allocate((size_t)(written - first), sizeof *r->records);
    for (number = first; number < written; number++) {
        uint64_t words[2], at = HEADER + number % capacity * RECORD;
        struct record *record = &r->records[r->count];
        if (((number == first || number % capacity == 0) && fseek(file, (long)at, SEEK_SET) != 0) ||
            fread(words, RECORD, 1, file) != 1)
            wrong("%s: %s", name, ferror(file) ? strerror(errno) : "the file is truncated");
        record->kind = (uint8_t)words[0];
        record->code = (uint8_t)(words[0] >> 8);
        record->flags = (uint8_t)(words[0] >> 16);
        record->thread = (uint8_t)(words[0] >> 24);
        record->peer = (uint16_t)(words[0] >> 32);
        switch (record->kind) {
            case 0: continue; /* unused */
            case TIME:
                if (words[1] > times[record->thread]) times[record->thread] = words[1];
                if (first > 0 && !is_known[record->thread] && words[1] > lost) lost = words[1];
                is_known[record->thread] = 1;
                continue;
            case POLL: polls[record->thread] += words[1]; continue;
            case WIDE: wide[record->thread] = words[1]; continue;
            case CONTENTS:
                if (record->thread != OTHER_THREADS) add_piece(&pieces[record->thread], words);
                continue;
            case CHECKSUM:
                checksums[record->thread] = words[1];
                has_checksum[record->thread] = 1;
                continue;
            default: break;
        }
        if ((record->kind > POLL && record->kind != TEAM) || (record->peer != NO_PEER && record->peer >= r->ranks))
            damaged(name, number);
        if ((is_send(record->kind) || is_run(record->kind)) &&
            (record->code < FIRST_HANDLER || (record->flags & ARGUMENTS) > 16 || record->peer == NO_PEER))
            damaged(name, number);
        if ((record->kind <= ATOMIC_NBI || record->kind == TEAM) && record->peer == NO_PEER) damaged(name, number);
        times[record->thread] += words[0] >> 48;
        record->at = times[record->thread] * UNIT_NS;
        record->number = (uint32_t)r->count;
        record->bytes = (words[1] & 0xffffffff) | (wide[record->thread] & 0xffffffff) << 32;
        record->offset = words[1] >> 32 | (wide[record->thread] >> 32) << 32;
        if (!has_place(record)) damaged(name, number);
        record->polls = (uint32_t)(polls[record->thread] < MOST_POLLS ? polls[record->thread] : MOST_POLLS);
        polls[record->thread] = wide[record->thread] = 0;
        record->has_checksum = has_checksum[record->thread];
        record->checksum = record->has_checksum ? checksums[record->thread] : 0;
        has_checksum[record->thread] = 0;
        record->contents = take_contents(&pieces[record->thread], record);
        r->count++;
    }
    qsort(r->records, r->count, sizeof *r->records, by_time);
    /* The ring replaces whole blocks: from here on it has the records of all threads. */
    while (lost > 0 && kept < r->count && r->records[kept].at <= lost * UNIT_NS) kept++;
    r->count -= kept;
    memmove(r->records, r->records + kept, r->count * sizeof *r->records);
}

struct recording *new_recording(unsigned rank, unsigned ranks) {
    static const uint32_t numbers[] = {VERSION, HEADER, RECORD};
    struct recording *r = allocate(1, sizeof *r);
    memcpy(r->header, "GASNETRC", WORD);
    memcpy(r->header + WORD, numbers, sizeof numbers);
    strcpy((char *)r->header + 64, "model");
    r->rank = rank;
    r->ranks = ranks;
    return r;
}

struct recording *load(const char *pattern, unsigned rank) {
    struct recording *r = allocate(1, sizeof *r);
    char name[4096];
    uint64_t capacity, written;
    struct stat about;
    FILE *file;
    if (pattern == NULL) {
        free(r);
        return modelled(rank);
    }
    file_name(name, sizeof name, pattern, rank);
    if (stat(name, &about) == 0 && !S_ISREG(about.st_mode)) wrong("%s is not a file", name);
    file = fopen(name, "rb");
    if (file == NULL) wrong("cannot open %s: %s", name, strerror(errno));
    read_header(r, name, file, &capacity, &written);
    if (r->rank != rank && strchr(pattern, '%') != NULL)
        wrong("%s is the recording of rank %u, and its name says %u", name, r->rank, rank);
    if (r->ranks > 1 && strchr(pattern, '%') == NULL)
        wrong("%s is one of %u recordings: write %% in place of the rank", name, r->ranks);
    read_records(r, name, file, capacity, written);
    fclose(file);
    return r;
}

static void put(FILE *file, uint64_t *written, uint64_t head, uint64_t body) {
    uint64_t words[2] = {head, body};
    fwrite(words, RECORD, 1, file);
    ++*written;
}

void store(const char *pattern, const struct recording *recording) {
    uint64_t times[256] = {0}, written = 0, capacity = 1;
    unsigned char header[HEADER];
    uint32_t numbers[3] = {recording->is_cut ? CUT : 0, recording->rank, recording->ranks};
    char name[4096];
    size_t i;
    FILE *file;
    file_name(name, sizeof name, pattern, recording->rank);
    file = fopen(name, "wb");
    if (file == NULL) wrong("cannot create %s: %s", name, strerror(errno));
    fwrite(recording->header, HEADER, 1, file);
    for (i = 0; i < recording->count; i++) {
        const struct record *record = &recording->records[i];
        uint64_t thread = (uint64_t)record->thread << 24 | (uint64_t)NO_PEER << 32;
        uint64_t time = record->at / UNIT_NS, gap = time - times[record->thread];
        times[record->thread] = time;
        if (gap > MOST_GAP) put(file, &written, TIME | thread, time);
        if (record->polls > 0) put(file, &written, POLL | thread, record->polls);
        if ((record->bytes | record->offset) >> 32 != 0)
            put(file, &written, WIDE | thread, record->bytes >> 32 | record->offset >> 32 << 32);
        put(file, &written,
            record->kind | (uint64_t)record->code << 8 | (uint64_t)record->flags << 16 |
                (uint64_t)record->thread << 24 | (uint64_t)record->peer << 32 | (gap > MOST_GAP ? 0 : gap << 48),
            (record->bytes & 0xffffffff) | record->offset << 32);
    }
    while (capacity < written) capacity *= 2;
    memcpy(header, recording->header, HEADER);
    memcpy(header + 20, numbers, sizeof numbers);
    memcpy(header + CAPACITY * WORD, &capacity, WORD);
    memcpy(header + WRITTEN * WORD, &written, WORD);
    rewind(file);
    fwrite(header, HEADER, 1, file);
    if (ferror(file) || fclose(file) != 0) wrong("cannot write %s: %s", name, strerror(errno));
}
