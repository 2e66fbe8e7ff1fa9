#!/usr/bin/env python3
"""Datagrams to and fro, for the self test: what a link does to them.

    udp_echo.py PORT                    answers every datagram with itself; prints `ready`
    udp_echo.py PORT HOST NUMBER [bundled]
                                        sends NUMBER numbered datagrams of 100 bytes, WINDOW at a time (bundled: by one call, with UDP GSO), and prints
                                        as JSON what came back: {"sent", "back" (each once), "twice" (further copies), "changed", "torn" (times
                                        when neither none nor all of WINDOW came back)}"""

import json
import select
import socket
import sys

WINDOW = 50
UDP_SEGMENT = 103
# How long nothing must come before the next ones are sent: with all back already, and without.
SILENCE_SECONDS = (0.1, 0.01)


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


def ask(port, host, number, bundled):
    """Sends, and counts what comes back."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    seen, twice, changed, torn = set(), 0, 0, 0
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.connect(address)
        for first in range(0, number, WINDOW):
            window = range(first, min(first + WINDOW, number))
            if bundled:
                client.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(payload(0)))
                client.send(b"".join(payload(n) for n in window))
            else:
                for n in window:
                    client.send(payload(n))
            while select.select([client], [], [], SILENCE_SECONDS[seen.issuperset(window)])[0]:
                data = client.recv(65536)
                place = int(data[40:48]) if data[40:48].isdigit() else -1
                if data != payload(place):
                    changed += 1
                elif place in seen:
                    twice += 1
                seen.add(place)
            torn += not seen.issuperset(window) and not seen.isdisjoint(window)
    print(json.dumps({"sent": number, "back": len(seen), "twice": twice, "changed": changed, "torn": torn}))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(int(sys.argv[1]))
    else:
        ask(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["bundled"])
