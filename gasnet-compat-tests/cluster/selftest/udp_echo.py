#!/usr/bin/env python3
"""Datagrams to and fro, for the self test: the faults of a link.

udp_echo.py PORT                    answers every datagram with itself; prints `ready`
udp_echo.py PORT HOST NUMBER [bundled]
                                    sends NUMBER numbered datagrams of 100 bytes, WINDOW at a time
                                    (bundled: by one call, with UDP GSO), and prints as JSON what
                                    came back: {"sent", "back" (each once), "twice" (further
                                    copies), "changed" (in bytes or length), "cut" (of these,
                                    shorter ones), "behind" (after one that was sent later), "rows"
                                    (of numbers that did not come), "torn" (times when neither none
                                    nor all of WINDOW came back), "fastest" (milliseconds)}"""

import json
import select
import socket
import sys
import time

WINDOW = 50
UDP_SEGMENT = 103
# Silence before the next datagrams are sent: while some are missing, and with all back already; and
# before the end.
SILENCE_SECONDS = (0.1, 0.01)
LAST_SILENCE_SECONDS = 2


def payload(number):
    """A datagram with a number, twice: who sees one changed does not take it for another."""
    return b"x" * 40 + b"%08d" % number + b"y" * 44 + b"%08d" % number


def serve(port):
    """Answers for ever, over IPv4 and IPv6."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", port))
        print("ready", flush=True)
        while True:
            data, sender = server.recvfrom(65536)
            server.sendto(data, sender)


class Client:
    """Sends, and counts what comes back."""

    def __init__(self, port, host):
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.connect(address)
        self.seen, self.twice, self.changed, self.cut, self.behind, self.highest = set(), 0, 0, 0, 0, -1
        self.since, self.fastest = 0.0, float("inf")

    def send(self, numbers, bundled):
        """Some datagrams at once."""
        self.since = time.monotonic()
        if bundled:
            self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(payload(0)))
            self.socket.send(b"".join(payload(n) for n in numbers))
        else:
            for n in numbers:
                self.socket.send(payload(n))

    def receive(self, silence):
        """One datagram; False when none comes for so long."""
        if not select.select([self.socket], [], [], silence)[0]:
            return False
        data = self.socket.recv(65536)
        self.fastest = min(self.fastest, time.monotonic() - self.since)
        place = int(data[40:48]) if data[40:48].isdigit() else -1
        if data != payload(place):
            self.changed += 1
            self.cut += len(data) < len(payload(0))
            return True
        self.twice += place in self.seen
        self.behind += place < self.highest
        self.highest = max(self.highest, place)
        self.seen.add(place)
        return True


def ask(port, host, number, bundled):
    """The client's work."""
    client = Client(port, host)
    windows = [range(first, min(first + WINDOW, number)) for first in range(0, number, WINDOW)]
    for window in windows:
        client.send(window, bundled)
        while client.receive(SILENCE_SECONDS[client.seen.issuperset(window)]):
            pass
    while client.receive(LAST_SILENCE_SECONDS):
        pass
    torn = sum(not client.seen.issuperset(w) and not client.seen.isdisjoint(w) for w in windows)
    rows = sum(n not in client.seen and (n == 0 or n - 1 in client.seen) for n in range(number))
    print(
        json.dumps(
            {
                "sent": number,
                "back": len(client.seen),
                "twice": client.twice,
                "changed": client.changed,
                "cut": client.cut,
                "behind": client.behind,
                "rows": rows,
                "torn": torn,
                "fastest": round(client.fastest * 1000, 3),
            }
        )
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(int(sys.argv[1]))
    else:
        ask(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["bundled"])
