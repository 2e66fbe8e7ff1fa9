/* A bad network: carries packets between TUN devices in several network namespaces, and loses,
 * doubles, delays, reorders and damages them.
 *
 * relay SEED DEVICE NAMESPACE...
 *
 * Makes a device of this name in each namespace (a file such as /proc/PID/ns/net), which is that of
 * host 1, 2 and so on, says "ready", and takes commands, a line each, from standard input, at whose
 * end it ends:
 *
 *   NAME VALUE   changes one of `knobs`, from now on; answered by "ok"
 *   counts       answered by a line of JSON: what was done until now
 *
 * What happens to a packet is decided when it comes, by a generator that begins with SEED.
 * cluster/tunnel.py starts it.
 */
#define _GNU_SOURCE
#include "packet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Packets that can wait, and those taken from one device before the others have their turn. */
enum { MOST_WAITING = 1 << 15, MOST_AT_ONCE = 64, MOST_BYTES = 1 << 16, MOST_HOSTS = 200, LINE_BYTES = 256 };

/* Settings. Per cent of the packets, except BURST: lost packets in a row, on average; DELAY and
 * HOLD: milliseconds. */
enum { LOSS, BURST, DUPLICATE, DELAY, LATE, HOLD, CORRUPT, DISGUISE, TRUNCATE, KNOBS };
static const char *const knobs[KNOBS] = {"loss", "burst",   "duplicate", "delay",   "late",
                                         "hold", "corrupt", "disguise",  "truncate"};
static double value[KNOBS];

/* Counts of what was done. */
enum { CAME, WENT, LOST, DOUBLED, HELD, OVERTAKEN, CORRUPTED, DISGUISED, TRUNCATED, OVERFLOWN, REFUSED, COUNTS };
static const char *const names[COUNTS] = {"came",      "went",      "lost",      "doubled",   "held",   "overtaken",
                                          "corrupted", "disguised", "truncated", "overflown", "refused"};
static unsigned long long count[COUNTS];

/* A packet that waits until it is due. Of those due at one time the one that came first goes
 * first. */
struct packet {
    uint64_t due, order;
    struct flow *flow;
    int device;
    size_t bytes;
    unsigned char data[];
};

/* From one host to another. */
struct flow {
    int losing;         /* in the middle of a burst */
    uint64_t last_went; /* the highest order of what has gone */
};

static int devices[MOST_HOSTS], hosts;
static struct flow *flows;
static struct packet *heap[MOST_WAITING];
static int waiting;
static uint64_t state, orders;

static void die(const char *what) {
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* xorshift64* (S. Vigna). */
static uint64_t next_random(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717);
}

/* From 0 up to, and without, 1. */
static double uniform(void) { return (double)(next_random() >> 11) / (double)(UINT64_C(1) << 53); }

static int chance(double per_cent) { return per_cent > 0 && uniform() * 100 < per_cent; }

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* ---- What waits: a binary heap, the next one at its top ---- */

static int before(const struct packet *a, const struct packet *b) {
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap(int i, int j) {
    struct packet *other = heap[i];
    heap[i] = heap[j];
    heap[j] = other;
}

static void wait_for(struct packet *packet) {
    int i = waiting++;
    heap[i] = packet;
    for (; i > 0 && before(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
}

static struct packet *take_first(void) {
    struct packet *first = heap[0];
    int i = 0, child;
    heap[0] = heap[--waiting];
    while ((child = 2 * i + 1) < waiting) {
        if (child + 1 < waiting && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], heap[i])) break;
        swap(i, child);
        i = child;
    }
    return first;
}

/* ---- What happens to packets ---- */

/* Whether this one is lost: by itself, or in bursts (E. N. Gilbert, "Capacity of a Burst-Noise
 * Channel", 1960), of the same share in the long run. */
static int is_lost(struct flow *flow) {
    double share = value[LOSS] / 100;
    if (value[BURST] <= 1 || share <= 0 || share >= 1) return chance(value[LOSS]);
    flow->losing = chance(flow->losing ? 100 - 100 / value[BURST] : 100 * share / (value[BURST] * (1 - share)));
    return flow->losing;
}

/* Sends one on its way; damaged, perhaps, if it has a datagram. */
static void pass_on(const unsigned char *data, size_t bytes, struct flow *flow, int device, uint64_t now) {
    struct packet *packet;
    size_t payload = payload_bytes(data, bytes);
    if (waiting == MOST_WAITING) {
        count[OVERFLOWN]++;
        return;
    }
    packet = (struct packet *)malloc(sizeof *packet + bytes);
    if (!packet) die("memory");
    memcpy(packet->data, data, bytes);
    packet->bytes = bytes;
    packet->flow = flow;
    packet->device = device;
    packet->order = ++orders;
    packet->due = now + (uint64_t)(value[DELAY] * 1e6);
    if (chance(value[LATE])) {
        packet->due += (uint64_t)(uniform() * value[HOLD] * 1e6);
        count[HELD]++;
    }
    if (payload && chance(value[CORRUPT])) {
        corrupt(packet->data, bytes, next_random());
        count[CORRUPTED]++;
    } else if (payload && chance(value[DISGUISE])) {
        corrupt(packet->data, bytes, next_random());
        renew_checksums(packet->data, bytes);
        count[DISGUISED]++;
    } else if (payload && chance(value[TRUNCATE])) {
        packet->bytes = truncate_payload(packet->data, (size_t)(next_random() % payload));
        count[TRUNCATED]++;
    }
    wait_for(packet);
}

/* Decides about a packet that has come from a host. Packets for none of the hosts, such as a host's
 * search for routers, are dropped. */
static void take_in(const unsigned char *data, size_t bytes, int from, uint64_t now) {
    unsigned to = is_packet(data, bytes) ? target_of(data) : 0;
    if (to < 1 || to > (unsigned)hosts) return;
    struct flow *flow = &flows[from * hosts + (int)to - 1];
    count[CAME]++;
    if (is_lost(flow)) {
        count[LOST]++;
        return;
    }
    if (chance(value[DUPLICATE])) {
        count[DOUBLED]++;
        pass_on(data, bytes, flow, devices[to - 1], now);
    }
    pass_on(data, bytes, flow, devices[to - 1], now);
}

/* Hands over what is due. Returns how long the next one has to wait, in nanoseconds, or -1. */
static int64_t deliver(void) {
    while (waiting > 0) {
        uint64_t now = now_ns();
        if (heap[0]->due > now) return (int64_t)(heap[0]->due - now);
        struct packet *packet = take_first();
        if (packet->order < packet->flow->last_went) count[OVERTAKEN]++;
        else packet->flow->last_went = packet->order;
        /* A host whose device is down refuses it. */
        count[write(packet->device, packet->data, packet->bytes) < 0 ? REFUSED : WENT]++;
        free(packet);
    }
    return -1;
}

/* ---- The surroundings ---- */

/* A device in a namespace; it is there as long as this descriptor. */
static int make_device(const char *name, const char *namespace_file) {
    struct ifreq request;
    int space = open(namespace_file, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) die(namespace_file);
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0) die("/dev/net/tun");
    memset(&request, 0, sizeof request);
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(device, TUNSETIFF, &request) != 0) die(name);
    return device;
}

static void obey(const char *line) {
    char name[LINE_BYTES];
    double number;
    if (!strcmp(line, "counts")) {
        for (int i = 0; i < COUNTS; i++) printf("%s\"%s\": %llu", i ? ", " : "{", names[i], count[i]);
        printf("}\n");
        return;
    }
    if (sscanf(line, "%255s %lf", name, &number) == 2)
        for (int i = 0; i < KNOBS; i++)
            if (!strcmp(name, knobs[i])) {
                value[i] = number;
                printf("ok\n");
                return;
            }
    printf("what is \"%s\"?\n", line);
}

/* Takes commands; 0 when no more can come. */
static int listen_to(int input) {
    static char line[LINE_BYTES];
    static size_t length;
    char byte;
    ssize_t got;
    while ((got = read(input, &byte, 1)) == 1) {
        if (byte != '\n') {
            if (length < LINE_BYTES - 1) line[length++] = byte;
            continue;
        }
        line[length] = 0;
        length = 0;
        obey(line);
        fflush(stdout);
    }
    return got < 0 && errno == EAGAIN;
}

int main(int argc, char **argv) {
    static unsigned char data[MOST_BYTES];
    struct pollfd polled[MOST_HOSTS + 1];
    if (argc < 4 || argc - 3 > MOST_HOSTS) {
        fprintf(stderr, "relay SEED DEVICE NAMESPACE...\n");
        return 2;
    }
    state = (strtoull(argv[1], NULL, 0) * 2 + 1) * UINT64_C(0x9E3779B97F4A7C15);
    hosts = argc - 3;
    flows = (struct flow *)calloc((size_t)hosts * (size_t)hosts, sizeof *flows);
    if (!flows) die("memory");
    for (int i = 0; i < hosts; i++) devices[i] = polled[i + 1].fd = make_device(argv[2], argv[i + 3]);
    if (fcntl(0, F_SETFL, O_NONBLOCK) != 0) die("standard input");
    polled[0].fd = 0;
    for (int i = 0; i <= hosts; i++) polled[i].events = POLLIN;
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int64_t left = deliver();
        struct timespec time = {left / 1000000000, left % 1000000000};
        if (ppoll(polled, (nfds_t)hosts + 1, left < 0 ? NULL : &time, NULL) < 0 && errno != EINTR) die("ppoll");
        if (polled[0].revents && !listen_to(0)) return 0;
        for (int i = 0; i < hosts; i++) {
            uint64_t now = now_ns();
            if (!(polled[i + 1].revents & POLLIN)) continue;
            for (int j = 0; j < MOST_AT_ONCE; j++) {
                ssize_t bytes = read(devices[i], data, sizeof data);
                if (bytes <= 0) break;
                take_in(data, (size_t)bytes, i, now);
            }
        }
    }
}
