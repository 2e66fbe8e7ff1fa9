/* A library to preload into ofi_intruder: between libfabric and its sockets it alters some of the
 * bytes that are sent, the same ones for the same seed. See network/test_intruders.py.
 *
 * MUTATE_SEED=N selects the mutations; without it nothing is altered. Each is one line of standard
 * error. The seed decides how many calls on each socket are spared, by which providers introduce
 * themselves, and the share of the others that is altered.
 *
 * MUTATE_FROM=N spares the first N bytes of each call, and calls that are not twice as long. A call
 * that no longer has its length is then the last one on its socket, so that no other byte becomes a
 * header: for providers that do not survive headers of their own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    HEADERS = 96,   /* bytes at the start of a call in which the headers of a message lie */
    MOST = 32,      /* mutations of a process: peers have hung up long before */
    SOCKETS = 1024, /* descriptors whose calls are counted */
    FULL_MS = 200   /* wait for a full socket */
};

static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static uint64_t seed;
static unsigned calls[SOCKETS], mutations, spared, share;
static size_t from;

/* SplitMix64. */
static uint64_t next(uint64_t *state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

__attribute__((constructor)) static void begin(void) {
    const char *word = getenv("MUTATE_SEED");
    *(void **)&real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    *(void **)&real_writev = dlsym(RTLD_NEXT, "writev");
    if (!word) return;
    from = getenv("MUTATE_FROM") ? strtoul(getenv("MUTATE_FROM"), NULL, 10) : 0;
    seed = strtoull(word, NULL, 10) + 1;
    uint64_t state = seed;
    spared = next(&state) % 4 ? 1 + (unsigned)(next(&state) % 8) : 0;
    share = 2 + (unsigned)(next(&state) % 30);
}

/* A message on its way out, and room for twice as much. */
struct message {
    unsigned char *bytes;
    size_t length;
};

/* Replaces an integer by one that readers may not expect. */
static const char *overwrite_field(struct message *message, size_t at, uint64_t *state) {
    static const uint64_t values[] = {0,          1,          2,          0x7f,         0xff,      0xffff,    0x10000,
                                      0x40000000, 0x7fffffff, 0xffffffff, 0xffffffffff, INT64_MAX, UINT64_MAX};
    size_t width = (size_t)1 << next(state) % 4;
    uint64_t value = values[next(state) % (sizeof values / sizeof *values)];
    int is_big_endian = next(state) % 2;
    at -= (at - from) % width;
    for (size_t i = 0; i < width && at + i < message->length; i++)
        message->bytes[at + i] = (unsigned char)(value >> 8 * (is_big_endian ? width - 1 - i : i));
    return "a field";
}

static const char *flip(struct message *message, size_t at, uint64_t *state) {
    size_t end = at + 1 + next(state) % 4;
    for (size_t i = at; i < end && i < message->length; i++)
        message->bytes[i] ^= (unsigned char)(1 + next(state) % 255);
    return "flipped";
}

static const char *cut(struct message *message, size_t at, uint64_t *state) {
    size_t left = message->length - at, bytes = 1 + next(state) % left;
    memmove(message->bytes + at, message->bytes + at + bytes, left - bytes);
    message->length -= bytes;
    return "cut";
}

static const char *duplicate(struct message *message) {
    memcpy(message->bytes + message->length, message->bytes, message->length);
    message->length *= 2;
    return "duplicated";
}

static const char *insert(struct message *message, size_t at, uint64_t *state) {
    size_t bytes = 1 + next(state) % (message->length < 64 ? message->length : 64);
    memmove(message->bytes + at + bytes, message->bytes + at, message->length - at);
    for (size_t i = 0; i < bytes; i++) message->bytes[at + i] = (unsigned char)next(state);
    message->length += bytes;
    return "inserted";
}

static const char *run_of_ones(struct message *message, size_t at, uint64_t *state) {
    size_t left = message->length - at, bytes = 1 + next(state) % left;
    memset(message->bytes + at, 0xff, bytes);
    return "0xff";
}

/* Fields of headers are altered more often than anything else. */
static void mutate(int fd, unsigned call, struct message *message, uint64_t *state) {
    size_t length = message->length, rest = length - from;
    size_t at = from + next(state) % (rest < HEADERS || next(state) % 4 == 0 ? rest : HEADERS);
    const char *what;
    switch (next(state) % 10) {
        case 0: what = cut(message, at, state); break;
        case 1: what = duplicate(message); break;
        case 2: what = insert(message, at, state); break;
        case 3: what = run_of_ones(message, at, state); break;
        case 4:
        case 5:
        case 6: what = flip(message, at, state); break;
        default: what = overwrite_field(message, at, state);
    }
    mutations++;
    fprintf(stderr, "mutated socket %d call %u: %s at %zu of %zu\n", fd, call, what, at, length);
}

static int is_network(int fd) {
    int domain;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6);
}

/* Sends all of it, also where the socket is full: libfabric has no part in what was added. */
static void send_all(int fd, const struct msghdr *header, struct message message, int flags) {
    size_t sent = 0;
    do {
        struct iovec rest = {message.bytes + sent, message.length - sent};
        struct msghdr part = {
            .msg_name = header->msg_name, .msg_namelen = header->msg_namelen, .msg_iov = &rest, .msg_iovlen = 1};
        struct pollfd poller = {.fd = fd, .events = POLLOUT};
        ssize_t count = real_sendmsg(fd, &part, (flags & ~MSG_ZEROCOPY) | MSG_NOSIGNAL);
        if (count < 0 && (errno != EAGAIN || poll(&poller, 1, FULL_MS) <= 0)) return;
        sent += count > 0 ? (size_t)count : 0;
    } while (sent < message.length);
}

/* Alters a call of some kind. Returns the length that the caller may believe was sent, or 0 if it
 * is to send the bytes as they are. */
static ssize_t altered(int fd, const struct msghdr *header, int flags) {
    struct message message = {NULL, 0};
    size_t length = 0, done = 0;
    if (!seed || fd < 0 || fd >= SOCKETS || mutations >= MOST || !is_network(fd)) return 0;
    unsigned call = calls[fd]++;
    uint64_t state = seed << 32 ^ (uint64_t)fd << 20 ^ call;
    for (size_t i = 0; i < header->msg_iovlen; i++) length += header->msg_iov[i].iov_len;
    if (length <= 2 * from || call < spared || next(&state) % share) return 0;
    message = (struct message){(unsigned char *)malloc(2 * length), length};
    if (!message.bytes) return 0;
    for (size_t i = 0; i < header->msg_iovlen; done += header->msg_iov[i++].iov_len)
        memcpy(message.bytes + done, header->msg_iov[i].iov_base, header->msg_iov[i].iov_len);
    mutate(fd, call, &message, &state);
    send_all(fd, header, message, flags);
    if (from && message.length != length) shutdown(fd, SHUT_RDWR);
    free(message.bytes);
    return (ssize_t)length;
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags) {
    ssize_t length = altered(fd, header, flags);
    return length ? length : real_sendmsg(fd, header, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct msghdr header = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = count < 0 ? 0 : (size_t)count};
    ssize_t length = altered(fd, &header, 0);
    return length ? length : real_writev(fd, parts, count);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    return writev(fd, &part, 1);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr header = {.msg_name = (void *)(uintptr_t)to, .msg_namelen = size, .msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(fd, &header, flags);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) { return sendto(fd, bytes, length, flags, NULL, 0); }
