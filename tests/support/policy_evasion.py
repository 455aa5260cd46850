#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An operator who tries to get past his role, over a real tunnel stream: frames by hand. Prints TAP.

  policy_evasion.py CLIENT RELAY FLEET CA CERT KEY HOST

The role is the one of policy_test.sh: data source com.example.load, sessions g-*, 5 s, 8 MiB. CLIENT
is tunnel_client, which carries bytes and understands nothing.
"""
import os
import socket
import struct
import subprocess
import sys

import service_peers as peers
from service_peers import field
from config_text import varint

REFUSED = b"refused by the relay's policy"


class Stream:
    """A tunnel stream that acts like a connected socket."""

    def __init__(self, client, relay, fleet, ca, cert, key, host):
        self.mine, theirs = socket.socketpair()
        self.process = subprocess.Popen([client, relay, fleet, ca, cert, key, "cat", host],
                                        stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()

    def sendall(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def recvmsg(self, *args):
        return self.mine.recvmsg(*args)

    def fileno(self):
        return self.mine.fileno()

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.mine.close()


claims = [0]


def claim(words, holds, seen=b""):
    claims[0] += not holds
    print(("ok - " if holds else "not ok - ") + words + ("" if holds else "  # saw %r" % seen[:300]))


def buffers(kb):
    return field(1, field(1, kb))


def source(name, more=b""):
    return field(2, field(1, field(1, name) + more))


GOOD = buffers(1024) + source("com.example.load") + field(3, 1000)


def enable(client, config, raw_args=None):
    """What the answer to EnableTracing says."""
    args = raw_args if raw_args is not None else field(1, config)
    return ask(client, "EnableTracing", args)


def ask(client, method, args):
    return raw_ask(client, field(5, field(1, client.service) + field(2, client.methods[method]) +
                                 field(3, args)))


def raw_ask(client, body):
    """The next frame, whole: what is refused is answered at once."""
    client.send(body)
    frame = client.read_frame()
    return b"".join(value for _, value in frame or [] if isinstance(value, bytes))


def long_varint(value, size):
    out = b""
    for _ in range(size - 1):
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value & 0x7F])


def configs():
    yield "another data source", GOOD + source("linux.ftrace")
    yield "a data source hidden behind a second name", GOOD[:-3] + field(2, field(1, field(
        1, "com.example.load") + field(1, "linux.ftrace"))) + field(3, 1000)
    yield "a data source hidden in a second config", buffers(64) + field(3, 1000) + field(
        2, field(1, field(1, "com.example.load")) + field(1, field(1, "linux.ftrace")))
    yield "a name with a NUL in it", buffers(64) + field(3, 1000) + source("com.example.load\0x")
    yield "no end", buffers(64) + source("com.example.load")
    yield "a second duration", GOOD + field(3, 86400000)
    yield "a duration of 2^32 + 1", buffers(64) + source("com.example.load") + varint(3 << 3) + varint(
        2**32 + 1)
    yield "a duration of 2^64 - 1", buffers(64) + source("com.example.load") + varint(3 << 3) + varint(
        2**64 - 1)
    yield "a duration in ten bytes", buffers(64) + source("com.example.load") + varint(
        3 << 3) + long_varint(1000, 10)
    yield "a duration of another wire type", buffers(64) + source("com.example.load") + varint(
        3 << 3 | 5) + struct.pack("<I", 1000)
    yield "a trigger's timeout instead of a duration", buffers(64) + source(
        "com.example.load") + field(17, field(1, 4) + field(3, 86400000))
    yield "an unknown trigger mode instead of a duration", buffers(64) + source(
        "com.example.load") + field(17, field(1, 3) + field(3, 1000))
    yield "buffers too large together", buffers(8000) + buffers(8000) + source(
        "com.example.load") + field(3, 1000)
    yield "sizes that overflow", buffers(2**32 - 1) * 2 + buffers(2) + source(
        "com.example.load") + field(3, 1000)
    yield "a size said twice", field(1, field(1, 64) + field(1, 2**31)) + source(
        "com.example.load") + field(3, 1000)
    yield "a file on the host", GOOD + field(8, 1) + field(29, "/tmp/pfl-evasion")
    yield "a file's path alone", GOOD + field(29, "/tmp/pfl-evasion")
    yield "lockdown", GOOD + field(5, 2)
    yield "an exclusive session", GOOD + field(41, 1)
    yield "an unknown field", GOOD + field(999, 1)
    yield "an unknown field of a data source", buffers(64) + field(3, 1000) + source(
        "com.example.load", field(99, 1))
    yield "a field nested in an unknown place", buffers(64) + field(3, 1000) + source(
        "com.example.load", field(100, field(999, field(1, "x"))))
    yield "a group", GOOD + varint(60 << 3 | 3) + varint(60 << 3 | 4)
    yield "a padded tag", GOOD + b"\xb0\x80\x00\x01"
    yield "a cut field", GOOD + b"\x12\x40x"


def try_configs(client):
    for words, config in configs():
        seen = enable(client, config)
        claim("%s is refused" % words, REFUSED in seen, seen)
    seen = enable(client, b"", field(1, GOOD) + field(1, source("linux.ftrace")))
    claim("a config that is there twice is refused", REFUSED in seen, seen)
    seen = enable(client, b"", b"")
    claim("no config is refused", REFUSED in seen, seen)


def try_methods(client):
    numbers = client.methods
    for words, method, args in (
            ("changing to another config", "ChangeTraceConfig", field(1, GOOD + source("linux.ftrace"))),
            ("taking over another's session", "Attach", field(1, "secret")),
            ("leaving a session under another's name", "Detach", field(1, "secret")),
            ("a copy by number", "CloneSession", field(1, 1)),
            ("a copy by bugreport", "CloneSession", field(1, 2**64 - 1) + field(3, 1)),
            ("a copy by another's name", "CloneSession", field(4, "secret")),
            ("a copy by two selectors", "CloneSession", field(4, "g-1") + field(1, 1)),
            ("a copy without the filter", "CloneSession", field(4, "g-1") + field(2, 1)),
            ("saving on the host", "SaveTraceForBugreport", b"")):
        seen = ask(client, method, args)
        claim("%s is refused" % words, REFUSED in seen, seen)
    service = client.service
    for words, body in (
            ("a number that the service did not give", field(1, service) + field(2, 77)),
            ("a number + 2^32", field(1, service) + varint(2 << 3) + varint(
                numbers["ReadBuffers"] + 2**32)),
            ("another service's number", field(1, service + 1) + field(2, numbers["ReadBuffers"])),
            ("two numbers", field(1, service) + field(2, numbers["ReadBuffers"]) +
             field(2, numbers["EnableTracing"]) + field(3, field(1, source("linux.ftrace")))),
            ("two sets of arguments", field(1, service) + field(2, numbers["EnableTracing"]) +
             field(3, field(1, GOOD)) + field(3, field(1, source("linux.ftrace"))))):
        seen = raw_ask(client, field(5, body))
        claim("%s is refused" % words, REFUSED in seen, seen)
    seen = raw_ask(client, field(3, field(1, "ConsumerPort")) + field(
        5, field(1, service) + field(2, numbers["ReadBuffers"])))
    claim("two requests in a frame are refused", REFUSED in seen, seen)
    seen = raw_ask(client, field(8, field(2, 0)))
    claim("another identity is refused", REFUSED in seen, seen)
    seen = raw_ask(client, field(3, field(1, "ProducerPort")))
    claim("another service cannot be bound", seen == b"", seen)


def byte_by_byte(client):
    """Cut as finely as can be, a refused request and one that is not."""
    for words, config, is_fine in (("refused", GOOD + source("linux.ftrace"), False),
                                   ("allowed", GOOD, True)):
        client.last_id += 1
        payload = field(2, client.last_id) + field(5, field(1, client.service) + field(
            2, client.methods["EnableTracing"]) + field(3, field(1, config)))
        for byte in struct.pack("<I", len(payload)) + payload:
            client.sock.sendall(bytes([byte]))
        if is_fine:
            ok, state = client.call("QueryServiceState")
            claim("what is allowed passes, byte by byte", ok and b"com.example.load" in state, state)
        else:
            frame = b"".join(v for _, v in client.read_frame() if isinstance(v, bytes))
            claim("what is refused does not, byte by byte", REFUSED in frame, frame)


def main(*args):
    stream = Stream(*args)
    client = peers.Client(stream, "ConsumerPort")
    try_configs(client)
    try_methods(client)
    byte_by_byte(client)
    claim("no file was made", not os.path.exists("/tmp/pfl-evasion"))
    client.sock.sendall(struct.pack("<I", 2**31) + b"x" * 64)
    try:
        over = client.read_frame() is None or client.read_frame() is None
    except TimeoutError:
        over = False
    claim("what is no frame ends the stream", over)
    stream.close()
    return claims[0] != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
