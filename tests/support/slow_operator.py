#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An operator who reads a session slowly, or goes away, while another client of the same service asks
it questions.

Usage: slow_operator.py MODE CONSUMER_SOCKET MIB OUT -- OPERATOR...

OPERATOR is a program whose input and output are the host's consumer socket. Records com.example.load
into a buffer that has MIB of it when it is read.
  slow   reads 10 KB/s for 2 s, then the rest; writes the trace to OUT
  pause  reads some, says "reading", goes on when it gets a line; the trace to OUT
  leave  reads some, kills OPERATOR, waits until the service has no session (at most 60 s)
  block  as slow, for 4 s, and does not mind what comes of it
Prints how many answers the other client got in the meantime, and its longest wait: answers=N,
longest_ms=N. Who is kept waiting gets one answer, at the end; who is not, fifty a second on a machine
that is not slow: the operator reads no faster, for a minute, until there are ANSWERS."""
import os
import subprocess
import sys
import threading
import time

from service_peers import Consumer, dict_of_lists, field, fields

SOURCE = "com.example.load"
ANSWERS, BLOCKED_S = 5, 2.5


class Pipe:
    """A program's input and output, as much of a socket as a Consumer needs."""

    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.out = self.process.stdout.fileno()

    def sendall(self, data):
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view):]

    def recvmsg(self, size, _):
        return os.read(self.out, size), [], 0, None

    def fileno(self):
        return self.out

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Neighbour(threading.Thread):
    """Asks again and again."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.client = Consumer(path)
        self.longest_s = 0.0
        self.answers = 0
        self.sessions = None
        self.is_over = False
        self.asked_at = None

    def ask(self):
        self.asked_at = time.monotonic()
        answer = self.client.call("QueryServiceState", field(1, 1))
        self.longest_s = max(self.longest_s, time.monotonic() - self.asked_at)
        self.asked_at = None
        self.answers += 1
        state = dict_of_lists(dict(fields(answer[1]))[1])
        self.sessions = len(state.get(6, []))

    def run(self):
        while not self.is_over:
            self.ask()
            time.sleep(0.02)

    def waits_s(self):
        asked_at = self.asked_at
        return 0 if asked_at is None else time.monotonic() - asked_at

    def stop(self):
        self.is_over = True
        self.longest_s = max(self.longest_s, self.waits_s())
        return self.longest_s


def bytes_written(client):
    answer = client.call("GetTraceStats")
    stats = dict(fields(dict(fields(answer[1]))[1]))
    return dict(fields(stats[1])).get(1, 0)


def record(client, mib):
    config = field(1, field(1, (mib + 32) * 1024)) + field(2, field(1, field(1, SOURCE)))
    why = client.enable(config)
    if why:
        sys.exit("refused: " + why)
    end = time.monotonic() + 60
    while bytes_written(client) < mib << 20:
        if time.monotonic() > end:
            sys.exit("too little was written: %d" % bytes_written(client))
        time.sleep(0.05)
    client.call("DisableTracing")


def wait_until(question):
    """For a minute."""
    end = time.monotonic() + 60
    while not question() and time.monotonic() < end:
        time.sleep(0.05)


class Trace:
    """The answer to ReadBuffers, piece by piece."""

    def __init__(self, client, name):
        self.client = client
        self.file = open(name, "wb")
        self.packet = b""
        self.size = 0
        self.done = []
        client.invoke("ReadBuffers", b"", self.on_reply)

    def on_reply(self, success, has_more, data):
        self.size += len(data)
        for number, value in fields(data):
            if number != 2:
                continue
            piece = dict(fields(value))
            self.packet += piece.get(1, b"")
            if piece.get(2):
                self.file.write(field(1, self.packet))
                self.packet = b""
        if not has_more:
            self.done.append(success)

    def read_all(self):
        while not self.done:
            if not self.client.dispatch():
                sys.exit("the stream broke")
        self.file.close()
        if not self.done[0]:
            sys.exit("ReadBuffers failed")

    def read_steadily(self, rate, is_enough):
        while not self.done and not is_enough():
            before = self.size
            if not self.client.dispatch():
                sys.exit("the stream broke")
            time.sleep((self.size - before) / rate)

    def read_slowly(self, seconds, is_enough):
        """So long, and until it is enough: a minute at most."""
        end = time.monotonic() + seconds
        last = time.monotonic() + 60
        while time.monotonic() < end or not is_enough() and time.monotonic() < last:
            self.client.pending += os.read(self.client.sock.out, 1000)
            time.sleep(0.1)


def main():
    mode, path, mib, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    pipe = Pipe(sys.argv[6:])
    far = Consumer(pipe)
    record(far, mib)
    neighbour = Neighbour(path)
    neighbour.ask()
    neighbour.longest_s = neighbour.answers = 0
    neighbour.start()
    trace = Trace(far, out)
    if mode == "block":
        trace.read_slowly(4, lambda: neighbour.waits_s() > BLOCKED_S)
    else:
        trace.read_slowly(2 if mode == "slow" else 0.3, lambda: neighbour.answers >= ANSWERS)
    if mode == "pause":
        print("reading", flush=True)
        before = neighbour.answers
        sys.stdin.readline()
        wait_until(lambda: neighbour.answers - before >= ANSWERS)
    answers = neighbour.answers
    if mode == "leave":
        pipe.process.kill()
        wait_until(lambda: neighbour.sessions == 0)
        answers = neighbour.answers
        if neighbour.sessions != 0:
            sys.exit("the session is still there")
    elif mode != "block":
        trace.read_all()
    print("answers=%d\nlongest_ms=%d" % (answers, neighbour.stop() * 1000), flush=True)
    if mode == "block":
        pipe.process.kill()
    pipe.close()


if __name__ == "__main__":
    main()
