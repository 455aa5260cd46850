#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An operator who reads as fast as he is let, and asks meanwhile.

Usage: rated_operator.py MIB -- OPERATOR...

OPERATOR is a program whose input and output are the host's consumer socket. Records com.example.load
until there are MIB of it, and reads it out; says `reading`. For a line of input it asks for a clone that
its role does not allow, and for statistics; says `asked`. At the end: `bytes=N seconds=S refused=WHY
statistics=yes`, where N are those of packets."""
import select
import sys
import time

from service_peers import Consumer, field, fields
from slow_operator import Pipe, record

GIVE_UP_S = 300


class Reading:
    def __init__(self, client):
        self.client = client
        self.size = 0
        self.ends = {}
        client.invoke("ReadBuffers", b"", self.on_packets)

    def on_packets(self, success, has_more, data):
        self.size += sum(len(value) for number, value in fields(data) if number == 2)
        if not has_more:
            self.ends["read"] = success

    def ask(self):
        def on_clone(_, __, data):
            self.ends["refused"] = dict(fields(data)).get(2, b"").decode()

        def on_stats(success, _, data):
            self.ends["statistics"] = "yes" if success and data else "no"
        self.client.invoke("CloneSession", field(4, "of-another"), on_clone)
        self.client.invoke("GetTraceStats", b"", on_stats)

    def run(self, pipe):
        inputs = [pipe, sys.stdin]
        end = time.monotonic() + GIVE_UP_S
        while len(self.ends) < 3:
            if time.monotonic() > end:
                sys.exit(f"after {GIVE_UP_S} s: {self.size} bytes, {self.ends}")
            ready = select.select(inputs, [], [], 1)[0]
            if sys.stdin in ready:
                sys.stdin.readline()
                inputs.remove(sys.stdin)
                self.ask()
                print("asked", flush=True)
            if (pipe in ready or self.client.pending) and not self.client.dispatch():
                sys.exit("the stream broke")


def main():
    pipe = Pipe(sys.argv[3:])
    client = Consumer(pipe)
    record(client, int(sys.argv[1]))
    reading = Reading(client)
    begin = time.monotonic()
    print("reading", flush=True)
    reading.run(pipe)
    print(f"bytes={reading.size} seconds={time.monotonic() - begin:.1f} "
          f"refused={reading.ends['refused']} statistics={reading.ends['statistics']}", flush=True)
    pipe.close()


main()
