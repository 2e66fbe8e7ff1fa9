/* An attacker on the network of a job of the udp conduit, and no member of the job: reads the
 * datagrams that its processes exchange on this host, and sends them forged ones. It needs a raw
 * socket. See network/test_flood.py.
 *
 * forge NUMBER [FREE]: sends NUMBER datagrams; the first FREE of them as fast as it can, the others
 * only while little waits at the receivers. Now and then it says that nobody listens there. Prints
 * for each process a line `rank R port P forged N replayed M`, and how many answers came.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER = 64,  /* of a datagram of the conduit's; where it has what: */
    KIND = 5,     /* what it is for, 1 to 6 */
    SOURCE = 8,   /* the rank that sent it, */
    NUMBER = 12,  /* its number, */
    HAVE = 24,    /* what it acknowledges, */
    TAG = 48,     /* its tag, */
    MASKED = 56,  /* and what its payload proves itself by */
    UDP = 8,      /* bytes of the header that a raw socket wants */
    SEEN = 4000,  /* datagrams that are looked at, */
    ENOUGH = 200, /* at least so many to each process; no longer than so many seconds */
    TIMEOUT = 60,
    LONGEST = 1400, /* of those that are sent, but for some */
    MOST = 65507,
    BATCH = 64,
    WAITING = 4 << 20 /* bytes of memory that datagrams at a receiver may take */
};

/* A datagram that a process sent: from and to which port. */
struct seen {
    uint16_t from, to;
    unsigned bytes;
    unsigned char *data;
};

static struct seen seen[SEEN];
static unsigned seen_count;
/* Ports on which the two processes receive, and from which each sends to the other. */
static uint16_t ports[2], lines[2];
static unsigned long forged[2], replayed[2];

static void fail(const char *what) {
    fprintf(stderr, "forge: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t any(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 16);
}

static uint32_t number_at(const unsigned char *data, unsigned at) {
    return data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24;
}

static void set_number(unsigned char *data, unsigned at, uint32_t value) {
    for (unsigned i = 0; i < 4; i++) data[at + i] = (unsigned char)(value >> 8 * i);
}

/* Length of the first datagram of a super-packet, whose datagrams have the same job, version and
 * sender. */
static size_t first_of(const unsigned char *data, size_t bytes) {
    for (size_t at = HEADER; at + HEADER <= bytes; at++)
        if (!memcmp(data + at, data, KIND) && !memcmp(data + at + SOURCE, data + SOURCE, 4)) return at;
    return bytes;
}

/* Keeps the datagrams of a packet: the kernel shows a train of them as one. */
static void keep(uint16_t from, uint16_t to, const unsigned char *data, size_t bytes) {
    while (bytes >= HEADER && seen_count < SEEN) {
        size_t length = first_of(data, bytes);
        struct seen *one = &seen[seen_count];
        one->from = from, one->to = to, one->bytes = (unsigned)length;
        one->data = malloc(length);
        if (!one->data) fail("memory");
        memcpy(one->data, data, length);
        seen_count++;
        data += length, bytes -= length;
    }
}

/* Looks until it has seen enough for both processes, and every kind of datagrams but the
 * farewell. */
static void look(void) {
    static unsigned char packet[1 << 17];
    unsigned to[2] = {0, 0}, kinds = 0;
    time_t end = time(NULL) + TIMEOUT;
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    if (fd < 0) fail("a raw socket");
    while (to[0] < ENOUGH || to[1] < ENOUGH || (kinds & 0x76) != 0x76) {
        struct pollfd wait = {fd, POLLIN, 0};
        ssize_t bytes = poll(&wait, 1, 1000) > 0 ? recv(fd, packet, sizeof packet, 0) : 0;
        size_t head = (size_t)(packet[0] & 15) * 4 + UDP;
        uint16_t from, there;
        unsigned before = seen_count;
        if (time(NULL) > end || seen_count == SEEN) {
            fprintf(stderr, "forge: saw %u and %u datagrams, kinds %#x\n", to[0], to[1], kinds);
            exit(1);
        }
        if (bytes <= (ssize_t)head) continue;
        memcpy(&from, packet + head - UDP, 2);
        memcpy(&there, packet + head - UDP + 2, 2);
        unsigned i = ports[0] && there != ports[0];
        if (!ports[i]) ports[i] = there, lines[1 - i] = from;
        if (there != ports[i] || from != lines[1 - i]) continue;
        /* Of one process not more than half. */
        if (to[i] >= SEEN / 2) continue;
        keep(from, there, packet + head, (size_t)bytes - head);
        for (; before < seen_count; before++) to[i]++, kinds |= 1U << (seen[before].data[KIND] & 7);
    }
    close(fd);
}

/* Most bytes that wait at one of the processes, by the kernel's account. */
static unsigned long waiting(void) {
    char line[512];
    unsigned long most = 0;
    FILE *file = fopen("/proc/net/udp", "r");
    if (!file) fail("/proc/net/udp");
    while (fgets(line, sizeof line, file)) {
        unsigned port;
        unsigned long queue;
        if (sscanf(line, " %*u: %*x:%x %*x:%*x %*x %*x:%lx", &port, &queue) != 2) continue;
        if (port != ntohs(ports[0]) && port != ntohs(ports[1])) continue;
        if (queue > most) most = queue;
    }
    fclose(file);
    return most;
}

/* One of those that were sent to a process. */
static const struct seen *one_to(uint16_t to) {
    const struct seen *one;
    do one = &seen[any() % seen_count];
    while (one->to != to);
    return one;
}

/* Makes a datagram for process `to`; returns its length. */
static unsigned make(unsigned to, unsigned char *data) {
    const struct seen *real = one_to(ports[to]);
    unsigned bytes = real->bytes, i, what = any() % 8;
    if (bytes > LONGEST && any() % 64) {
        /* Of long ones most often the beginning. */
        bytes = HEADER + any() % (LONGEST - HEADER);
        what = what == 6 ? 1 : what;
    }
    memcpy(data, real->data, bytes);
    switch (what) {
        case 0: /* anything */
            bytes = any() % LONGEST;
            for (i = 0; i < bytes; i++) data[i] = (unsigned char)any();
            break;
        case 1: /* cut */ bytes = any() % bytes; break;
        case 2: /* one bit is another */
            i = any() % bytes;
            data[i] ^= (unsigned char)(1U << any() % 8);
            break;
        case 3: /* the next numbers, everything acknowledged, and the tag guessed */
            set_number(data, NUMBER, number_at(data, NUMBER) + 1 + any() % 256);
            set_number(data, HAVE + 4 * (any() % 2), any());
            set_number(data, TAG + 4 * (any() % 2), any());
            set_number(data, MASKED + 4 * (any() % 2), any());
            break;
        case 4: /* what was sent to the other one */
            real = one_to(ports[1 - to]);
            bytes = real->bytes < LONGEST ? real->bytes : HEADER;
            memcpy(data, real->data, bytes);
            break;
        case 5: /* two are one, or the end is missing */
            if (2 * bytes > MOST) {
                bytes--;
                break;
            }
            memcpy(data + bytes, data, bytes);
            bytes *= 2;
            break;
        case 6: /* the very same again */ replayed[to]++; return bytes;
        default: /* a farewell */
            bytes = HEADER;
            data[KIND] = 3;
            set_number(data, TAG, any());
    }
    forged[to]++;
    return bytes;
}

/* Sends a batch: as itself, or in the name of the other process. */
static void send_batch(int plain, int raw) {
    static unsigned char memory[BATCH][UDP + MOST];
    static struct mmsghdr messages[BATCH];
    static struct iovec vectors[BATCH];
    static struct sockaddr_in addresses[BATCH];
    unsigned sent = 0, as_other = any() % 2;
    for (unsigned i = 0; i < BATCH; i++) {
        unsigned to = any() % 2;
        unsigned bytes = make(to, memory[i] + UDP);
        uint16_t head[4] = {lines[1 - to], ports[to], htons((uint16_t)(UDP + bytes)), 0};
        memcpy(memory[i], head, UDP);
        vectors[i].iov_base = memory[i] + (as_other ? 0 : UDP);
        vectors[i].iov_len = bytes + (as_other ? UDP : 0);
        addresses[i].sin_family = AF_INET;
        addresses[i].sin_port = as_other ? 0 : ports[to];
        addresses[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        messages[i].msg_hdr.msg_name = &addresses[i];
        messages[i].msg_hdr.msg_namelen = sizeof addresses[i];
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (sent < BATCH) {
        int now = sendmmsg(as_other ? raw : plain, messages + sent, BATCH - sent, 0);
        if (now < 0 && errno != EINTR && errno != ENOBUFS) fail("sending");
        if (now > 0) sent += (unsigned)now;
    }
}

static uint16_t sum(const unsigned char *data, unsigned bytes) {
    uint32_t all = 0;
    for (unsigned i = 0; i < bytes; i += 2) all += (uint32_t)data[i] << 8 | (i + 1 < bytes ? data[i + 1] : 0);
    while (all >> 16) all = (all & 0xffff) + (all >> 16);
    return htons((uint16_t)~all);
}

/* Says to a process, in the name of its host, that nobody listens at the other one's port: for
 * something that it sent a while ago, as it was or changed. */
static void refuse(int icmp, unsigned to) {
    static unsigned char packet[8 + 20 + UDP + HEADER];
    const struct seen *real = one_to(ports[1 - to]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct iphdr *ip = (struct iphdr *)(void *)(packet + 8);
    uint16_t head[4] = {lines[to], ports[1 - to], htons((uint16_t)(UDP + real->bytes)), 0};
    memset(packet, 0, sizeof packet);
    packet[0] = 3, packet[1] = 3;
    ip->version = 4, ip->ihl = 5, ip->ttl = 64, ip->protocol = IPPROTO_UDP;
    ip->tot_len = htons((uint16_t)(20 + UDP + real->bytes));
    ip->saddr = ip->daddr = htonl(INADDR_LOOPBACK);
    memcpy(packet + 8 + 20, head, UDP);
    memcpy(packet + 8 + 20 + UDP, real->data, HEADER);
    if (any() % 2) packet[8 + 20 + UDP + any() % HEADER] ^= 1;
    uint16_t check = sum(packet, sizeof packet);
    memcpy(packet + 2, &check, 2);
    if (sendto(icmp, packet, sizeof packet, 0, (struct sockaddr *)&address, sizeof address) < 0)
        fail("sending a refusal");
}

int main(int argc, char **argv) {
    unsigned long number = argc > 1 ? strtoul(argv[1], NULL, 10) : 0,
                  at_once = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    int plain = socket(AF_INET, SOCK_DGRAM, 0), raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP),
        icmp = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    int answers = 0, least = 1;
    struct timespec pause = {0, 200000};
    char byte;
    look();
    /* It is for sending only; the kernel would keep for it what others send. */
    if (setsockopt(raw, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) != 0) fail("a raw socket for sending");
    for (unsigned long i = 0; i < number; i += BATCH) {
        send_batch(plain, raw);
        if (any() % 4 == 0) refuse(icmp, any() % 2);
        while (i >= at_once && i / BATCH % 32 == 0 && waiting() > WAITING) nanosleep(&pause, NULL);
    }
    while (recv(plain, &byte, 1, MSG_DONTWAIT) >= 0) answers++;
    for (unsigned long i = 0; i < 2; i++) {
        unsigned rank = number_at(one_to(ports[1 - i])->data, SOURCE);
        printf("rank %u port %u forged %lu replayed %lu\n", rank, ntohs(ports[i]), forged[i], replayed[i]);
    }
    printf("answers %d\n", answers);
    return 0;
}
