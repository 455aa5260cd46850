#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that is far away: delayer.py PORT-FILE TARGET TO-MS FROM-MS passes bytes on TO-MS
later towards TARGET and FROM-MS later on the way back, in order and without loss. The last
milliseconds of a wait are spun: the time of a delay is kept to some microseconds."""
import collections
import selectors
import socket
import sys
import time

SPIN_S = 0.003


class Way:
    """One direction of one connection."""

    def __init__(self, source, sink, delay_s):
        self.source, self.sink, self.delay_s = source, sink, delay_s
        self.queue = collections.deque()  # (when, bytes); empty bytes: the end


def main():
    port_file, target, to_ms, from_ms = sys.argv[1:5]
    host, port = target.rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    with open(port_file, "w", encoding="utf-8") as file:
        print(listener.getsockname()[1], file=file)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, None)
    ways = []
    while True:
        due = min((w.queue[0][0] for w in ways if w.queue), default=None)
        wait = None if due is None else max(0, due - time.monotonic() - SPIN_S)
        for key, _ in selector.select(wait):
            if key.data is None:
                near, _ = listener.accept()
                far = socket.create_connection((host, int(port)))
                for s in (near, far):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink, ms in ((near, far, to_ms), (far, near, from_ms)):
                    ways.append(Way(source, sink, float(ms) / 1000))
                    selector.register(source, selectors.EVENT_READ, ways[-1])
                continue
            way, when = key.data, time.monotonic()
            try:
                data = way.source.recv(65536)
            except OSError:
                data = b""
            way.queue.append((when + way.delay_s, data))
            if not data:
                selector.unregister(way.source)
        due = min((w.queue[0][0] for w in ways if w.queue), default=0)
        while 0 < due - time.monotonic() < SPIN_S:
            pass
        for way in ways:
            while way.queue and way.queue[0][0] <= time.monotonic():
                data = way.queue.popleft()[1]
                try:
                    if data:
                        way.sink.sendall(data)
                    else:
                        way.sink.shutdown(socket.SHUT_WR)
                except OSError:
                    pass


if __name__ == "__main__":
    main()
