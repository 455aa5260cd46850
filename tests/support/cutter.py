#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that loses connections: cutter.py PORT-FILE TARGET [MEAN-BYTES [SEED [LIMIT]]]

Listens on a port of 127.0.0.1 (written to PORT-FILE) and passes connections on to TARGET. With
MEAN-BYTES each connection is cut after a random number of bytes of about that mean, at most LIMIT
times; half of the cuts are resets, half are ends. SIGUSR1 cuts all that are open; SIGUSR2 freezes
them (nothing is passed on, nothing is said) and thaws them again. Prints "cuts N" at its end."""
import random
import selectors
import signal
import socket
import struct
import sys

LINGER_RESET = struct.pack("ii", 1, 0)
PIECE = 1 << 16


class Pair:
    def __init__(self, near, far, budget):
        self.ends = (near, far)
        self.pending = {near: b"", far: b""}  # to be sent to it
        self.budget = budget

    def other(self, sock):
        return self.ends[1] if sock is self.ends[0] else self.ends[0]


class Cutter:
    def __init__(self, port_file, target, mean=0, seed=1, limit=1 << 30):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.mean, self.limit, self.cuts = mean, limit, 0
        self.random = random.Random(seed)
        self.selector = selectors.DefaultSelector()
        self.pairs = {}
        self.frozen = False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        with open(port_file + ".new", "w") as f:
            f.write(f"{self.listener.getsockname()[1]}\n")
        import os
        os.rename(port_file + ".new", port_file)

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target, timeout=60)
        except OSError:
            near.close()
            return
        budget = self.random.expovariate(1 / self.mean) + 1 if self.mean else None
        pair = Pair(near, far, budget)
        for sock in pair.ends:
            sock.setblocking(False)
            self.pairs[sock] = pair
            self.selector.register(sock, selectors.EVENT_READ)

    def drop(self, pair, reset):
        for sock in pair.ends:
            if self.pairs.pop(sock, None) is None:
                continue
            self.selector.unregister(sock)
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            sock.close()

    def watch(self, pair):
        for sock in pair.ends:
            other = pair.other(sock)
            events = 0 if pair.pending[other] else selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if pair.pending[sock] else 0
            if sock in self.pairs:
                self.selector.modify(sock, events or selectors.EVENT_WRITE)

    def move(self, sock, events):
        pair = self.pairs.get(sock)
        if pair is None:
            return
        try:
            if events & selectors.EVENT_WRITE and pair.pending[sock]:
                sent = sock.send(pair.pending[sock])
                pair.pending[sock] = pair.pending[sock][sent:]
            if events & selectors.EVENT_READ:
                self.read(pair, sock)
        except BlockingIOError:
            pass
        except OSError:
            self.drop(pair, True)
        if sock in self.pairs:
            self.watch(pair)

    def read(self, pair, sock):
        data = sock.recv(PIECE)
        if not data:
            self.drop(pair, False)
            return
        if pair.budget is not None and self.cuts < self.limit:
            pair.budget -= len(data)
            if pair.budget <= 0:
                # What is left of the budget still gets through: cuts fall anywhere in a record.
                pair.other(sock).send(data[:len(data) // 2])
                self.cuts += 1
                self.drop(pair, self.random.random() < 0.5)
                return
        pair.pending[pair.other(sock)] += data

    def cut_all(self, *_):
        for pair in set(self.pairs.values()):
            self.cuts += 1
            self.drop(pair, True)

    def freeze(self, *_):
        self.frozen = not self.frozen

    def run(self):
        while True:
            for key, events in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    self.accept()
                elif not self.frozen:
                    self.move(key.fileobj, events)
            if self.frozen:
                signal.sigtimedwait([], 0.05)


def main():
    numbers = [int(n) for n in sys.argv[3:]]
    cutter = Cutter(sys.argv[1], sys.argv[2], *numbers)

    def stop(*_):
        print(f"cuts {cutter.cuts}", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, cutter.cut_all)
    signal.signal(signal.SIGUSR2, cutter.freeze)
    cutter.run()


if __name__ == "__main__":
    main()
