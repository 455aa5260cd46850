#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Plays a Trace Processor for `perfleet ask`: its framing on standard input and output, and a few questions.

A trace that does not begin as one is refused. What a trace has in it decides about its process: a packet with
the text "played:die", "played:sleep", "played:eat" (memory), "played:threads" or "played:leave" (before it has all of the trace).
Questions, whose answers have one row if not said:

    packets       how many there are, and one cell of each type
    rows N        N rows: 0 to N - 1, and a text
    half          10 rows, then it dies
    wide          other columns for a trace with an even number of packets
    wrong         an error
    mostly        1, but an error for a trace with the text "played:wrong"; with "played:exit" it exits as what cannot run
    garbage       no reply, but bytes
    huge          a row that is too large
    endless       rows without end
    names         rows of NULL without end, in columns with long names
    try           what the sandbox lets it do: socket, write, read, fork, kill, execute, the environment
    wait          no answer
What a trace says about itself (SELECT) is known of one with the text "played:host". A summary's answer is its spec and the number of packets.
"""
import os
import socket
import struct
import sys
import threading
import time

APPEND, FINALIZE, QUERY, SUMMARIZE = 1, 2, 3, 15
NULL, VARINT, FLOAT64, STRING, BLOB = 1, 2, 3, 4, 5


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            size = read_varint(data, at)[0] if tag & 7 == 2 else 8 if tag & 7 == 1 else 4
            at = read_varint(data, at)[1] if tag & 7 == 2 else at
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def requests():
    data = b""
    while True:
        more = os.read(0, 65536)
        if not more:
            return
        data += more
        while len(data) > 5:
            assert data[0] == 10
            size, at = read_varint(data, 1)
            if len(data) < at + size:
                break
            yield dict(fields(data[at:at + size]))
            data = data[at + size:]


def reply(method, number, args):
    message = field(1, reply.seq) + field(3, method) + field(number, args)
    reply.seq += 1
    data = field(1, message)
    while data:
        data = data[os.write(1, data):]


reply.seq = 0


def batch(rows, is_last):
    cells, lists = b"", {VARINT: b"", FLOAT64: b"", STRING: b"", BLOB: b""}
    for value in (v for row in rows for v in row):
        kind = (NULL if value is None else VARINT if isinstance(value, int) else FLOAT64 if isinstance(value, float)
                else STRING if isinstance(value, str) else BLOB)
        cells += bytes([kind])
        if value is not None:
            lists[kind] += (varint(value) if kind == VARINT else struct.pack("<d", value) if kind == FLOAT64 else
                            value.encode("utf-8", "surrogateescape") + b"\0" if kind == STRING else field(4, value))
    out = field(1, cells) + field(2, lists[VARINT]) + field(3, lists[FLOAT64]) + lists[BLOB] + field(5, lists[STRING])
    return out + (field(6, 1) if is_last else b"")


def answer(columns, rows, size=1000):
    head = b"".join(field(1, name.encode()) for name in columns)
    for at in range(0, max(len(rows), 1), size):
        reply(QUERY, 203, head + field(3, batch(rows[at:at + size], at + size >= len(rows))))
        head = b""


def outcome(act):
    try:
        act()
        return "works"
    except OSError as error:
        return os.strerror(error.errno)


def fork():
    if os.fork() == 0:
        os._exit(0)


def tries(words):
    def write():
        os.close(os.open(words[0], os.O_WRONLY | os.O_CREAT, 0o600))
    yield "socket", outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    yield "write", outcome(write)
    yield "read", outcome(lambda: os.close(os.open(words[1], os.O_RDONLY)))
    yield "fork", outcome(fork)
    yield "kill", outcome(lambda: os.kill(int(words[2]), 0))
    if words[3:]:  # where it works, the rest is not said
        yield "execute", outcome(lambda: os.execv("/usr/bin/env", ["env"]))
    yield "environment", " ".join(sorted(os.environ))


def ask(sql, packets, data):
    words = sql.split()
    if words[0] == "SELECT" and b"played:host" in data:
        answer(["", "start"], [["web1+db1", 1795442581500000000]])
    elif words[0] == "SELECT":
        reply(QUERY, 203, field(2, b"no such column: name") + field(3, batch([], True)))
    elif words[0] == "packets":
        answer(["packets", "real", "text", "none", "blob"], [[len(packets), 0.5, "\x1b[31mred, \"text\"", None, b"\1\2"]])
    elif words[0] == "rows":
        answer(["n", "host"], [[n, "text %d" % n] for n in range(int(words[1]))])
    elif words[0] == "half":
        reply(QUERY, 203, field(1, b"n") + field(3, batch([[n] for n in range(10)], False)))
        os.abort()
    elif words[0] == "wide":
        answer(["a", "b"][len(packets) % 2:], [[0, 0][len(packets) % 2:]])
    elif words[0] == "mostly" and b"played:exit" in data:
        os._exit(126)
    elif words[0] == "mostly" and b"played:wrong" not in data:
        answer(["n"], [[1]])
    elif words[0] in ("wrong", "mostly"):
        reply(QUERY, 203, field(2, b"no such table: \x1b[31mwrong") + field(3, batch([], True)))
    elif words[0] == "garbage":
        os.write(1, b"garbage " * 100)
    elif words[0] == "huge":
        answer(["text"], [["x" * (17 << 20)]])
    elif words[0] == "endless":
        part = field(3, batch([["x" * 65536]] * 64, False))
        reply(QUERY, 203, field(1, b"text") + part)
        while True:
            reply(QUERY, 203, part)
    elif words[0] == "names":
        part = field(3, batch([[None] * 128] * 900, False))
        reply(QUERY, 203, b"".join(field(1, b"%03d" % n + b"n" * 250) for n in range(128)) + part)
        while True:
            reply(QUERY, 203, part)
    elif words[0] == "try":
        answer(["what", "outcome"], [list(pair) for pair in tries(words[1:])])
    elif words[0] == "wait":
        time.sleep(3600)


def main():
    data, spoken = b"", False
    for request in requests():
        method = request.get(2)
        if method == APPEND:
            data += request[101]
            if b"played:leave" in data:
                sys.exit(3)
            spoken = spoken or data[:1] != b"\n"
            reply(APPEND, 201, field(2, b"Unknown trace type provided") if data[:1] != b"\n" else b"")
        elif method == FINALIZE:
            packets = [] if spoken else [value for number, value in fields(data) if number == 1]
            if b"played:die" in data:
                sys.stderr.write("Loading\nCHECK failed: \x1b[31mplayed\n")
                sys.stderr.flush()
                os.abort()
            if b"played:sleep" in data:
                time.sleep(3600)
            if b"played:eat" in data:
                hoard = []
                while True:
                    hoard.append(bytearray(16 << 20))
            if b"played:threads" in data:
                threading.stack_size(65536)
                for _ in range(200):
                    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
                time.sleep(3600)
            reply(FINALIZE, 212, b"")
        elif method == QUERY:
            ask(dict(fields(request[103]))[1].decode(), packets, data)
        elif method == SUMMARIZE:
            args = dict(fields(request[110]))
            text = args.get(2, args.get(1, b"")) + b"\npackets: %d\n" % len(packets)
            reply(SUMMARIZE, 214, field(2, text))


if "--stdiod" in sys.argv:
    main()
