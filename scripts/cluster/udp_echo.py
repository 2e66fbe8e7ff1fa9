#!/usr/bin/env python3
"""Datagrams to and fro, for the self test: what a link does to them.

    udp_echo.py PORT                    answers every datagram with itself; prints `ready`
    udp_echo.py PORT HOST NUMBER        sends NUMBER numbered datagrams of 100 bytes, a few at a time, and prints as JSON what came back:
                                        {"sent", "back" (each once), "twice" (further copies), "changed"}"""

import json
import select
import socket
import sys

WINDOW = 50
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


def ask(port, host, number):
    """Sends, and counts what comes back."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    sent, seen, twice, changed = 0, set(), 0, 0
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.connect(address)
        while sent < number:
            for _ in range(min(WINDOW, number - sent)):
                client.send(payload(sent))
                sent += 1
            while select.select([client], [], [], SILENCE_SECONDS[len(seen) == sent])[0]:
                data = client.recv(65536)
                place = int(data[40:48]) if data[40:48].isdigit() else -1
                if data != payload(place):
                    changed += 1
                elif place in seen:
                    twice += 1
                seen.add(place)
    print(json.dumps({"sent": sent, "back": len(seen), "twice": twice, "changed": changed}))


if __name__ == "__main__":
    serve(int(sys.argv[1])) if len(sys.argv) == 2 else ask(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
