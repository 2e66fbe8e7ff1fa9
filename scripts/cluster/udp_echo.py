#!/usr/bin/env python3
"""Datagrams to and fro, for the self test: what a link does to them.

    udp_echo.py PORT                    answers every datagram with itself; prints `ready`
    udp_echo.py PORT HOST NUMBER [bundled]
                                        sends NUMBER numbered datagrams of 100 bytes, WINDOW at a time (bundled: by one call, with UDP GSO), and
                                        prints as JSON what came back: {"sent", "back" (each once), "twice" (further copies), "changed", "torn"
                                        (times when neither none nor all of WINDOW came back)}"""

import json
import select
import socket
import sys

WINDOW = 50
UDP_SEGMENT = 103
# How long nothing must come before the next ones are sent: with all back already, and without; and before it is over.
SILENCE_SECONDS = (0.1, 0.01)
LAST_SILENCE_SECONDS = 2


def payload(number):
    """A datagram with a number in its middle."""
    return b"x" * 40 + b"%08d" % number + b"y" * 52


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
        self.seen, self.twice, self.changed = set(), 0, 0

    def send(self, numbers, bundled):
        """Some datagrams at once."""
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
        place = int(data[40:48]) if data[40:48].isdigit() else -1
        self.changed += data != payload(place)
        self.twice += data == payload(place) and place in self.seen
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
    print(json.dumps({"sent": number, "back": len(client.seen), "twice": client.twice, "changed": client.changed, "torn": torn}))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(int(sys.argv[1]))
    else:
        ask(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["bundled"])
