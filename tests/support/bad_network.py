#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that is a bad network: bad_network.py PORT-FILE TARGET [options]

Listens on a port of 127.0.0.1 (written to PORT-FILE) and passes connections on to TARGET in order
and unchanged, until SIGUSR1 makes it bad; SIGUSR2 makes it good again (what is frozen thaws). While
it is bad, each connection meets faults at random times, MEAN seconds apart on average:
  cut       ends, or is reset, after a part of what is on its way was passed on
  freeze    nothing passes, in both directions or in one, for up to FREEZE-MAX seconds; then it
            thaws or is cut
  delay     what passes is up to DELAY-MAX seconds later, in order
  throttle  from MIN-RATE to MAX-RATE bytes a second pass
What the n-th connection meets, and when, is decided by SEED and n alone. SIGTERM prints how many of
each there were, as JSON, and ends."""
import argparse
import asyncio
import json
import os
import random
import signal
import socket
import struct

LINGER_RESET = struct.pack("ii", 1, 0)
PIECE, WAITING = 1 << 16, 64


class Way:
    """One direction of a connection."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.open = asyncio.Event()
        self.open.set()
        self.delay = 0.0
        self.rate = None
        self.queue = asyncio.Queue(WAITING)

    async def take(self, loop):
        while True:
            data = await loop.sock_recv(self.source, PIECE)
            await self.queue.put((loop.time() + self.delay, data))
            if not data:
                return

    async def give(self, loop, count):
        while True:
            due, data = await self.queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self.open.wait()
            if not data:
                self.sink.shutdown(socket.SHUT_WR)
                return
            while data:
                piece = data if self.rate is None else data[:max(1, int(self.rate / 20))]
                await loop.sock_sendall(self.sink, piece)
                data = data[len(piece):]
                count(len(piece))
                if self.rate is not None:
                    await asyncio.sleep(len(piece) / self.rate)
                await self.open.wait()


class Connection:
    def __init__(self, net, near, number):
        self.net, self.near, self.far = net, near, None
        self.random = random.Random(f"{net.options.seed}:{number}")
        self.ways = []

    async def run(self):
        loop = asyncio.get_running_loop()
        tasks = []
        try:
            self.far = socket.socket()
            self.far.setblocking(False)
            await loop.sock_connect(self.far, self.net.target)
            for s in (self.near, self.far):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ways = [Way(self.near, self.far), Way(self.far, self.near)]
            flow = [asyncio.ensure_future(self.flow(w, loop)) for w in self.ways]
            misery = asyncio.ensure_future(self.suffer(loop))
            tasks = flow + [misery]
            both = asyncio.gather(*flow)
            tasks.append(both)
            await asyncio.wait([both, misery], return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for s in (self.near, self.far):
                s.close()

    async def flow(self, way, loop):
        take = asyncio.ensure_future(way.take(loop))
        try:
            await way.give(loop, self.net.count_bytes)
        finally:
            take.cancel()

    async def suffer(self, loop):
        """Ends when the connection is cut."""
        o, r = self.net.options, self.random
        while True:
            wait = r.expovariate(1 / o.mean)
            kind = r.choices(("cut", "freeze", "delay", "throttle"), (3, 2, 2, 3))[0]
            numbers = [r.random() for _ in range(4)]
            await self.net.is_bad.wait()
            await asyncio.sleep(wait)
            if not self.net.is_bad.is_set():
                continue
            self.net.counts[kind] += 1
            for way in self.ways:
                way.delay, way.rate = 0.0, None
            if kind == "cut" or (kind == "freeze" and not await self.freeze(numbers)):
                self.cut(numbers)
                return
            if kind == "delay":
                for way, part in zip(self.ways, numbers):
                    way.delay = part * o.delay_max
            elif kind == "throttle":
                for way in self.ways:
                    way.rate = o.min_rate * (o.max_rate / o.min_rate)**numbers[0]

    async def freeze(self, numbers):
        """Whether the connection lives on."""
        frozen = self.ways if numbers[0] < 0.7 else [self.ways[numbers[0] < 0.85]]
        for way in frozen:
            way.open.clear()
        try:
            await asyncio.wait_for(self.net.is_good.wait(),
                                   numbers[1]**2 * self.net.options.freeze_max)
        except asyncio.TimeoutError:
            pass
        if numbers[2] < 0.3 and self.net.is_bad.is_set():
            return False
        for way in frozen:
            way.open.set()
        return True

    def cut(self, numbers):
        for way, part in zip(self.ways, numbers):
            try:
                if not way.queue.empty():
                    data = way.queue.get_nowait()[1]
                    way.sink.send(data[:int(len(data) * part)])
            except OSError:
                pass
        if numbers[3] < 0.5:
            for s in (self.near, self.far):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)


class Network:
    def __init__(self, options):
        host, port = options.target.rsplit(":", 1)
        self.options, self.target = options, (host, int(port))
        self.is_bad, self.is_good = asyncio.Event(), asyncio.Event()
        self.counts = dict.fromkeys(("connections", "cut", "freeze", "delay", "throttle", "bytes"), 0)

    def count_bytes(self, number):
        self.counts["bytes"] += number

    def turn_bad(self):
        self.is_good.clear()
        self.is_bad.set()

    def turn_good(self):
        self.is_bad.clear()
        self.is_good.set()

    async def run(self):
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, self.turn_bad)
        loop.add_signal_handler(signal.SIGUSR2, self.turn_good)
        loop.add_signal_handler(signal.SIGTERM, end.set)
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listener.setblocking(False)
        with open(self.options.port_file + ".new", "w", encoding="utf-8") as file:
            print(listener.getsockname()[1], file=file)
        os.rename(self.options.port_file + ".new", self.options.port_file)
        accepting = asyncio.ensure_future(self.accept(loop, listener))
        await end.wait()
        accepting.cancel()
        print(json.dumps(self.counts), flush=True)

    async def accept(self, loop, listener):
        living = set()
        while True:
            near, _ = await loop.sock_accept(listener)
            near.setblocking(False)
            task = asyncio.ensure_future(Connection(self, near, self.counts["connections"]).run())
            self.counts["connections"] += 1
            living.add(task)
            task.add_done_callback(living.discard)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port_file")
    parser.add_argument("target")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mean", type=float, default=1.0)
    parser.add_argument("--freeze-max", type=float, default=3.0)
    parser.add_argument("--delay-max", type=float, default=0.2)
    parser.add_argument("--min-rate", type=float, default=1e5)
    parser.add_argument("--max-rate", type=float, default=1e7)
    asyncio.run(Network(parser.parse_args()).run())


if __name__ == "__main__":
    main()
