/* Functions of `relay.c` for one IP packet: find the datagram in it, and damage it. Packets are
 * IPv4 without options, or IPv6. */
#ifndef CLUSTER_PACKET_H
#define CLUSTER_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum { IPV4_BYTES = 20, IPV6_BYTES = 40, UDP_BYTES = 8, PROTOCOL_UDP = 17 };

static unsigned read16(const unsigned char *p) { return (unsigned)p[0] << 8 | p[1]; }

static void write16(unsigned char *p, unsigned value) {
    p[0] = (unsigned char)(value >> 8);
    p[1] = (unsigned char)value;
}

static int is_ipv4(const unsigned char *packet) { return packet[0] >> 4 == 4; }

static size_t header_bytes(const unsigned char *packet) { return is_ipv4(packet) ? IPV4_BYTES : IPV6_BYTES; }

/* Whether these bytes are a packet that can be looked at. */
static int is_packet(const unsigned char *packet, size_t bytes) {
    return (bytes >= IPV4_BYTES && packet[0] == 0x45) || (bytes >= IPV6_BYTES && packet[0] >> 4 == 6);
}

/* The number of the host that it is for: the last 16 bits of the address. Those of groups are no
 * hosts. */
static unsigned target_of(const unsigned char *packet) {
    const unsigned char *address = packet + (is_ipv4(packet) ? 16 : 24);
    int group = is_ipv4(packet) ? address[0] >= 224 : address[0] == 0xff;
    return group ? 0 : read16(packet + header_bytes(packet) - 2);
}

/* The bytes of the datagram's payload; 0 for other packets, for fragments, and when there are
 * none. */
static size_t payload_bytes(const unsigned char *packet, size_t bytes) {
    size_t head = header_bytes(packet);
    unsigned protocol = is_ipv4(packet) ? packet[9] : packet[6];
    int fragment = is_ipv4(packet) && (read16(packet + 6) & 0x3fff) != 0;
    if (protocol != PROTOCOL_UDP || fragment || bytes < head + UDP_BYTES || read16(packet + head + 4) != bytes - head)
        return 0;
    return bytes - head - UDP_BYTES;
}

/* The sum of the Internet's checksum (RFC 1071) over further bytes. */
static uint32_t sum_of(const unsigned char *p, size_t bytes, uint32_t sum) {
    size_t i;
    for (i = 0; i + 1 < bytes; i += 2) sum += read16(p + i);
    return bytes % 2 ? sum + (uint32_t)p[bytes - 1] * 256 : sum;
}

static unsigned folded(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* Makes the checksums of a packet with a datagram right. */
static void renew_checksums(unsigned char *packet, size_t bytes) {
    size_t head = header_bytes(packet), rest = bytes - head, addresses = is_ipv4(packet) ? 8 : 32;
    unsigned char *udp = packet + head;
    unsigned checksum;
    if (is_ipv4(packet)) {
        write16(packet + 10, 0);
        write16(packet + 10, folded(sum_of(packet, head, 0)));
    }
    write16(udp + 6, 0);
    checksum = folded(sum_of(udp, rest, sum_of(packet + head - addresses, addresses, PROTOCOL_UDP + (uint32_t)rest)));
    write16(udp + 6, checksum ? checksum : 0xffff); /* 0 would mean that there is none */
}

/* Changes one byte of the payload, so that the checksum, which stays as it is, cannot be right any
 * more. `random` says which byte and how. */
static void corrupt(unsigned char *packet, size_t bytes, uint64_t random) {
    size_t payload = payload_bytes(packet, bytes);
    packet[bytes - payload + (size_t)(random >> 8) % payload] ^= (unsigned char)(random % 255 + 1);
}

/* Cuts the payload to `left` bytes; to the receiver that is a datagram like any other. Returns the
 * bytes of the packet. */
static size_t truncate_payload(unsigned char *packet, size_t left) {
    size_t head = header_bytes(packet), rest = UDP_BYTES + left;
    write16(packet + head + 4, (unsigned)rest);
    write16(packet + (is_ipv4(packet) ? 2 : 4), (unsigned)(is_ipv4(packet) ? head + rest : rest));
    renew_checksums(packet, head + rest);
    return head + rest;
}

#endif
