#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that behave badly, for the integration tests. ADDRESS is a socket path or host:port.

  hostile.py silent ADDRESS N          N connections that say nothing; prints `open N`, waits for
                                       the end of stdin
  hostile.py garbage ADDRESS ROUNDS    random, truncated, oversized and half-right frames, each on
                                       its own connection; prints `sent ROUNDS`
  hostile.py stuck-producer PATH NAME  registers data source NAME, then never reads again; prints
                                       `registered`, waits for the end of stdin
  hostile.py scribbler PATH NAME       a producer that answers setup and then writes random bytes
                                       over its shared memory and commits nonsense until stdin ends
"""
import mmap
import os
import random
import select
import socket
import struct
import sys


def connect(address):
    host, _, port = address.rpartition(":")
    if address.startswith("/") or not port.isdigit():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(address)
    else:
        sock = socket.create_connection((host, int(port)))
    return sock


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(payload):
    return struct.pack("<I", len(payload)) + payload


def read_fields(data):
    pos, out = 0, []

    def number():
        nonlocal pos
        value = shift = 0
        while True:
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while pos < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            pos, value = pos + value, data[pos:pos + value]
        out.append((tag >> 3, value))
    return out


class Producer:
    """The first steps of a producer: bind, initialize, ask for commands, register."""

    def __init__(self, path, name):
        self.sock = connect(path)
        self.request = 0
        self.fds = []
        self.pending = b""
        self.sock.sendall(self.frame(field(3, field(1, "ProducerPort"))))
        reply = dict(read_fields(self.read_frame()))
        self.methods = {}
        for number, value in read_fields(reply[4]):
            if number == 3:
                method = dict(read_fields(value))
                self.methods[method[2].decode()] = method[1]
            elif number == 2:
                self.service = value
        self.invoke("InitializeConnection", field(1, 4096) + field(2, 262144) + field(3, "hostile"))
        self.invoke("GetAsyncCommand", b"")
        self.invoke("RegisterDataSource", field(1, field(1, name)))

    def frame(self, body):
        self.request += 1
        return frame(field(2, self.request) + body)

    def invoke(self, method, args):
        self.sock.sendall(self.frame(field(5, field(1, self.service) + field(
            2, self.methods[method]) + field(3, args))))

    def read_frame(self):
        while len(self.pending) < 4 or len(self.pending) < 4 + struct.unpack(
                "<I", self.pending[:4])[0]:
            data, fds, _, _ = socket.recv_fds(self.sock, 65536, 1)
            self.fds += fds
            if not data:
                raise EOFError
            self.pending += data
        size = struct.unpack("<I", self.pending[:4])[0]
        out, self.pending = self.pending[4:4 + size], self.pending[4 + size:]
        return out


def silent(address, count):
    socks = []
    for _ in range(int(count)):
        try:
            socks.append(connect(address))
        except (BlockingIOError, ConnectionRefusedError):
            break  # the listener's queue is full: it took what it takes
        except OSError as why:
            print(f"hostile: {why}", file=sys.stderr)
            break
    print(f"open {len(socks)}", flush=True)
    sys.stdin.read()


def garbage_message(rng):
    kind = rng.randrange(7)
    noise = rng.randbytes(rng.randrange(1, 3000))
    if kind == 0:
        return noise
    if kind == 1:
        return struct.pack("<I", rng.choice([0xFFFFFFFF, 0x80000000, 131069, 200000])) + noise
    if kind == 2:
        return frame(noise)
    if kind == 3:
        return frame(field(2, 1) + field(3, field(1, "ConsumerPort")))[:-rng.randrange(1, 9)]
    bind = b"".join(frame(field(2, 1) + field(3, field(1, name)))
                    for name in ("ProducerPort", "ConsumerPort"))
    if kind == 4:
        return bind + b"".join(
            frame(field(2, n) + field(5, field(1, 1) + field(2, rng.randrange(20)) + field(3, noise)))
            for n in range(30))
    if kind == 5:
        nested = b""
        for _ in range(2000):
            nested = field(1, nested)[:120000]
        return bind + frame(field(5, field(1, 1) + field(2, 1) + field(3, nested)))
    return bind + frame(b"") * 1000 + frame(field(2, 2 ** 64 - 1) + field(7, noise))


def garbage(address, rounds):
    rng = random.Random(20)
    for _ in range(int(rounds)):
        sock = connect(address)
        sock.settimeout(60)
        try:
            sock.sendall(garbage_message(rng))
            if rng.randrange(2):
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
        except OSError:
            pass  # the service may close on us at any point
        sock.close()
    print(f"sent {rounds}", flush=True)


def stuck_producer(path, name):
    producer = Producer(path, name)
    producer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    print("registered", flush=True)
    sys.stdin.read()


def scribbler(path, name):
    producer = Producer(path, name)
    print("registered", flush=True)
    rng = random.Random(21)
    while not producer.fds:
        producer.read_frame()
    size = os.fstat(producer.fds[0]).st_size
    memory = mmap.mmap(producer.fds[0], size)
    print("scribbling", flush=True)
    count = 0
    while True:
        ready, _, _ = select.select([sys.stdin, producer.sock], [], [], 0)
        if sys.stdin in ready and not sys.stdin.read(1):
            break
        if producer.sock in ready:
            producer.read_frame()
        at = rng.randrange(0, size - 4096)
        memory[at:at + 4096] = rng.randbytes(4096)
        moves = b"".join(field(1, field(1, rng.randrange(70)) + field(2, rng.randrange(16)) +
                                  field(3, rng.randrange(5))) for _ in range(rng.randrange(1, 40)))
        patches = field(2, field(1, rng.randrange(5)) + field(2, rng.randrange(9)) + field(
            3, rng.randrange(1, 4)) + field(4, field(1, rng.randrange(9000)) + field(2, b"\xff" * 4)))
        producer.invoke("CommitData", moves + patches)
        count += 1
    print(f"committed {count}", flush=True)


if __name__ == "__main__":
    COMMANDS = {"silent": silent, "garbage": garbage, "stuck-producer": stuck_producer,
                "scribbler": scribbler}
    if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
