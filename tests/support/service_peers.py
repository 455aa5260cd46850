# SPDX-License-Identifier: Apache-2.0
"""A producer and a consumer of a tracing service, by hand, for tests: frames and fields and nothing
of the project's own code. Nothing here waits without a limit."""
import os
import select
import socket
import struct
import time

from config_text import varint

LIMIT_S = 60


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """(number, value) of a message; length-delimited values as bytes."""
    at, out = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        tag = number()
        kind = tag & 7
        if kind == 0:
            value = number()
        elif kind == 2:
            size = number()
            at, value = at + size, data[at:at + size]
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            at, value = at + size, int.from_bytes(data[at:at + size], "little")
        else:
            raise ValueError("wire type %d" % kind)
        out.append((tag >> 3, value))
    return out


def is_readable(sock, timeout_s):
    poll = select.poll()  # select(2) knows 1024 descriptors
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(1000 * timeout_s))


class Client:
    """One connection, bound to one service. `path` may be what acts like a connected socket."""

    def __init__(self, path, service, uid=None):
        self.sock = path
        if isinstance(path, str):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if not isinstance(path, str):
            pass
        elif uid is None:
            self.sock.connect(path)
        else:
            os.seteuid(uid)
            try:
                self.sock.connect(path)
            finally:
                os.seteuid(0)
        self.last_id = 0
        self.pending = b""
        self.fds = []
        self.is_closed = False
        self.largest = 0  # frame that came
        self.handlers = {}  # request id -> function(success, has_more, bytes)
        self.friends = []  # clients that are served while this one waits
        self.send(field(3, field(1, service)))
        reply = dict(self.read_frame())
        self.methods = {}
        for number, value in fields(reply[4]):
            if number == 2:
                self.service = value
            elif number == 3:
                method = dict(fields(value))
                self.methods[method[2].decode()] = method[1]

    def send(self, body, fd=None):
        self.last_id += 1
        data = field(2, self.last_id) + body
        data = struct.pack("<I", len(data)) + data
        try:
            if fd is None:
                self.sock.sendall(data)
            else:
                socket.send_fds(self.sock, [data], [fd])
        except OSError:
            self.is_closed = True
        return self.last_id

    def read_frame(self):
        """The next frame's fields; None when the service closed the connection."""
        end = time.monotonic() + LIMIT_S
        while len(self.pending) < 4 or len(self.pending) < 4 + struct.unpack(
                "<I", self.pending[:4])[0]:
            if not is_readable(self.sock, max(0, end - time.monotonic())):
                raise TimeoutError("no answer")
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, 262144, 4)
            except ConnectionError:
                data, fds = b"", []
            self.fds += fds
            if not data:
                self.is_closed = True
                return None
            self.pending += data
        size = struct.unpack("<I", self.pending[:4])[0]
        self.largest = max(self.largest, size)
        out, self.pending = self.pending[4:4 + size], self.pending[4 + size:]
        return fields(out)

    def invoke(self, method, args, handler, fd=None):
        request = self.send(field(5, field(1, self.service) + field(
            2, self.methods[method]) + field(3, args)), fd)
        self.handlers[request] = handler
        return request

    def dispatch(self):
        """One frame to its handler; False when the connection is closed."""
        frame = self.read_frame()
        if frame is None:
            return False
        frame = dict(frame)
        handler = self.handlers.get(frame.get(2))
        reply = dict(fields(frame.get(6, b"")))
        if handler is not None and 6 in frame:
            handler(bool(reply.get(1)), bool(reply.get(2)), reply.get(3, b""))
        return True

    def call(self, method, args=b"", fd=None):
        """Waits for the last answer; (success, all of its bytes). None: connection closed."""
        out, done = [], []

        def on_reply(success, has_more, data):
            out.append(data)
            if not has_more:
                done.append(success)
        self.invoke(method, args, on_reply, fd)
        while not done:
            if self.is_closed:
                return None
            self.serve_friends()
            if not self.dispatch():
                return None
        return done[0], b"".join(out)

    def serve_friends(self):
        while self.friends and not self.pending:
            ready = select.select([self.sock] + [f.sock for f in self.friends], [], [], LIMIT_S)[0]
            if not ready or self.sock in ready:
                return
            for friend in self.friends:
                if friend.sock in ready:
                    friend.dispatch()

    def has_input(self, timeout_s):
        return bool(self.pending) or is_readable(self.sock, timeout_s)

    def close(self):
        self.sock.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []


class Consumer(Client):
    """Notes the end of its sessions in `said`."""

    def __init__(self, path, uid=None):
        super().__init__(path, "ConsumerPort", uid)
        self.said = []

    def enable(self, config, fd=None, more=b""):
        """None, or the reason of a refusal."""
        before = len(self.said)

        def on_end(success, _, data):
            reply = dict(fields(data))
            error = reply.get(3, b"").decode("utf-8", "replace")
            self.said.append("ended" + (": " + error if error else "") if success else "no success")
        self.invoke("EnableTracing", field(1, config) + more, on_end, fd)
        self.settle()
        for what in self.said[before:]:
            if what.startswith("ended: "):
                self.said.remove(what)
                return what[7:]
        return None

    def settle(self):
        for _ in range(2):
            self.call("QueryCapabilities")

    def state(self):
        answer = self.call("QueryServiceState", field(1, 1))
        return [dict_of_lists(value) for number, value in
                fields(dict(fields(answer[1]))[1]) if number == 6]

    def packets(self):
        answer = self.call("ReadBuffers")
        out, packet = [], b""
        for number, value in fields(answer[1]):
            if number != 2:
                continue
            piece = dict(fields(value))
            packet += piece.get(1, b"")
            if piece.get(2):
                out.append(packet)
                packet = b""
        return out


def dict_of_lists(data):
    out = {}
    for number, value in fields(data):
        out.setdefault(number, []).append(value)
    return out


class Producer(Client):
    """Answers commands as a well-behaved producer does; the commands are in `received`."""

    # name: (will_notify_on_stop, will_notify_on_start, handles_incremental_state_clear, no_flush)
    SOURCES = {"plain": (0, 0, 0, 0), "notifies": (1, 1, 0, 0), "clears": (0, 0, 1, 0),
               "no_flush": (0, 0, 0, 1)}

    def __init__(self, path, name="table.producer", sources=None, uid=None):
        super().__init__(path, "ProducerPort", uid)
        self.received = []
        self.instances = {}
        self.owed = []  # acks that are held back
        self.holds = set()
        self.is_refused = False
        self.name = name
        answer = self.call("InitializeConnection",
                           field(1, 4096) + field(2, 262144) + field(3, name))
        if answer is None or not answer[0]:
            self.is_refused = True
            return
        self.invoke("GetAsyncCommand", b"", self.on_command)
        for number, source in enumerate(sources or self.SOURCES):
            self.register(source, number + 1)
        self.settle()

    def register(self, source, number, size=0):
        """`size`: what the descriptor is filled up to, with a field that nobody knows."""
        stop, start, clear, no_flush = self.SOURCES.get(source, (0, 0, 0, 0))
        descriptor = (field(1, source) + field(2, stop) + field(3, start) + field(4, clear)
                      + field(7, number) + field(9, no_flush))
        if size:
            room = size - len(descriptor)
            header = next(n for n in (3, 4, 5) if len(field(900, bytes(room - n))) == room)
            descriptor += field(900, bytes(room - header))
        self.call("RegisterDataSource", field(1, descriptor))

    def settle(self):
        if self.is_refused:
            return
        while True:
            before = self.last_id
            self.call("Sync")
            if self.last_id == before + 1:
                return

    def wait_for(self, what, limit_s=LIMIT_S):
        """Until a command's line begins with `what`, or, after `=`, is that."""
        end = time.monotonic() + limit_s
        while not any(line == what[1:] if what[0] == "=" else line.startswith(what)
                      for line in self.received):
            left = end - time.monotonic()
            if left <= 0 or not self.has_input(left) or not self.dispatch():
                return False
        return True

    def on_command(self, success, has_more, data):
        if not success:
            return
        number, value = fields(data)[0]
        if number == 3:
            size = os.fstat(self.fds[-1]).st_size if self.fds else 0
            self.received.append("setup_tracing page_kb=%d shm_kb=%d" % (
                dict(fields(value)).get(1, 0), size // 1024))
        elif number == 6:
            self.on_setup(dict(fields(value)))
        elif number == 1:
            instance = dict(fields(value))[1]
            self.received.append("start " + self.instances[instance])
            self.ack("start", "notifies", instance, "NotifyDataSourceStarted")
        elif number == 2:
            instance = dict(fields(value))[1]
            self.received.append("stop " + self.instances[instance])
            self.ack("stop", "notifies", instance, "NotifyDataSourceStopped")
        elif number == 5:
            self.on_flush(value)
        elif number == 7:
            self.received.append("clear " + self.names(value, 1))

    def names(self, data, number):
        ids = []
        for at, value in fields(data):
            if at != number:
                continue
            if isinstance(value, int):
                ids.append(value)
                continue
            while value:  # packed
                size = next(i for i, byte in enumerate(value) if byte < 0x80) + 1
                ids.append(sum((byte & 0x7F) << 7 * i for i, byte in enumerate(value[:size])))
                value = value[size:]
        return ",".join(sorted(self.instances.get(i, "?") for i in ids))

    def on_setup(self, setup):
        config = dict(fields(setup[2]))
        name = config[1].decode()
        self.instances[setup[1]] = name
        line = "setup " + name
        for number, what in ((3, "duration"), (6, "guardrails"), (7, "stop_timeout"),
                             (8, "initiator"), (122, "suspend_clock")):
            if number in config:
                line += " %s=%d" % (what, config[number])
        others = sorted(set(config) - {1, 2, 3, 4, 6, 7, 8, 122})
        self.received.append(line + (" fields=%s" % others if others else ""))

    def on_flush(self, value):
        flush = dict(fields(value))
        self.received.append("flush %s flags=%#x" % (self.names(value, 1), flush.get(3, 0)))
        if "flush" not in self.holds:
            self.invoke("CommitData", field(3, flush[2]), lambda *_: None)

    def ack(self, kind, source, instance, method):
        if self.instances[instance] != source:
            return
        if kind in self.holds:
            self.owed.append((method, instance))
        else:
            self.invoke(method, field(1, instance), lambda *_: None)

    def release(self):
        self.holds.clear()
        for method, instance in self.owed:
            self.invoke(method, field(1, instance), lambda *_: None)
        self.owed = []
        self.settle()
