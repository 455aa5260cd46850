# SPDX-License-Identifier: Apache-2.0
"""The seats at a collector: an operator who may only read traces, a host whose segments are descriptions."""
import contextlib
import hashlib
import os
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import time

from attacks.collection import COLLECTOR, LIST_SEGMENTS, READ_SEGMENT, Collection, HELLO, Spool, field
from fleet import cpu_seconds, memory_kib, wait_until
from postgres import Postgres
from tunnel_abuse import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST, SETTINGS, WINDOW, Peer,
                          agent, answer_all, frame)
from world import Failed, get_slowness

ATTACKS = ["costly_searches", "many_labels", "heavy_descriptions", "full_store", "small_traces", "gaps_said_again",
           "clock_behind", "long_lists"]
RELEASE_SEGMENT = 7
POLICY = """rule { name: "all" operator: "me" host: "*" }
rule { name: "collector" operator: "col" host: "*" role: "collect" }
rule { name: "readers" operator: "ann" operator: "bob" host: "*" role: "read" }
role { name: "collect" method: "none" collect: true }
role { name: "read" method: "none" traces: true }
"""


class Collector(Collection):
    """With a collector, whose store and index are in the folder `store`."""

    def __init__(self, build, *options):
        super().__init__(build)
        self.options_of_collector = options
        self.started = 0
        (self.dir / "policy").write_text(POLICY)
        (self.dir / "store").mkdir(0o700)

    def start_collector(self):
        self.start("collector", [self.program("collector", "perfleet-collector"), "--relay", self.relay_address,
                                 "--store", self.dir / "store", *self.options_of_collector, *self.tls("operator-col")])
        self.started += 1
        wait_until(lambda: self.log("collector").count("serving: ") >= self.started, "the collector does not serve")

    def fill_index(self, rows, more=field(16, b"a" * 255) * 2, is_gap=0):
        """Traces of one host; two data sources as any host gives them. The collector looks for objects, not for gaps'."""
        note = b"".join([field(1, b"h"), field(2, b"ann"), field(3, b"web"), more])
        now = time.time_ns()
        db = sqlite3.connect(self.dir / "store" / "index.sqlite")
        db.execute("INSERT INTO host(id, name) VALUES(1, 'h')")
        db.execute("INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id, changed_ns)"
                   " VALUES(1, 1, 'ann', 'web', 'r', 1, 9000000000000000000)")
        db.executemany("INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
                       " end_ns, bytes, object_key, definition, collector, generation, changed_ns, stored_ns)"
                       " VALUES('01J' || printf('%023d', ?1), 1, 1, ?1, ?1, ?4, 0, 1, ?1, ?1, 9, 'v1/x', ?2, 'col', 1,"
                       " ?3, ?3)", ((i, note, now, is_gap) for i in range(1, rows + 1)))
        db.commit()
        db.close()


class Reader:
    """An operator's stream to the collector."""

    def __init__(self, net, who):
        self.peer, self.bytes, self.number = net.peer("operator-" + who), b"", 0
        self.stream, status = net.dial(self.peer, "/v1/collectors/col", COLLECTOR)
        if status != 200:
            raise Failed("%s is answered %s" % (who, status))

    def send(self, request):
        self.number += 1
        message = field(1, self.number) + request
        self.peer.send(frame(DATA, 0, self.stream, len(message).to_bytes(4, "little") + message))

    def read_end(self, is_over=lambda: False):
        """Until the last part of an answer."""
        while not is_over():
            size = 4 + int.from_bytes(self.bytes[:4], "little")
            if 4 < size <= len(self.bytes):
                message, self.bytes = self.bytes[4:size], self.bytes[size:]
                if b"\x10\x01" not in message[:8]:  # has_more
                    return
                continue
            got = self.peer.read(1)
            if self.peer.is_closed or (got and got[0] in (RST, GOAWAY)):
                raise Failed("the collector ends the stream")
            if got and got[0] == DATA and got[2] == self.stream and got[3]:
                self.bytes += got[3]
                credit = struct.pack(">I", len(got[3]))
                self.peer.send(frame(WINDOW, 0, 0, credit) + frame(WINDOW, 0, self.stream, credit))


def costly_searches(build):
    """an operator whose searches look through all traces delays no other operator's"""
    costly = field(2, b"".join(field(8, b"*a*a*a*a*b%d" % i) for i in range(60)))
    cheap = field(2, field(12, 1))
    with Collector(build, "--keep", "*:age=none") as net:
        net.start_collector()
        net.end("collector")
        net.fill_index(100000)
        net.start_collector()
        end = threading.Event()

        def attack(reader):
            with contextlib.suppress(Failed):
                while not end.is_set():
                    for _ in range(4):
                        reader.send(costly)
                    for _ in range(4):
                        reader.read_end(end.is_set)

        bob = Reader(net, "bob")
        threads = [threading.Thread(target=attack, args=(Reader(net, "ann"),), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        worst_s = 0
        for _ in range(20):
            begin, limit_s = time.monotonic(), 2 * get_slowness()
            bob.send(cheap)
            bob.read_end(lambda: time.monotonic() - begin > limit_s)
            worst_s = max(worst_s, time.monotonic() - begin)
            if worst_s > limit_s:
                raise Failed("another operator's list takes more than %.1f s" % worst_s)
        end.set()
        for thread in threads:
            thread.join(60)
        return net.judge("another operator's list takes %.2f s at most; " % worst_s)


def many_labels(build):
    """a role of 64 label rules and a host with 21,000 labels make a list no dearer than a search for one label"""
    rules = "".join('rule { name: "r%d" operator: "ann" host: "*" label: "r%d=x" role: "read" }\n' % (i, i) for i in range(64))
    with Collector(build, "--keep", "*:age=none") as net:
        (net.dir / "policy").write_text(rules + POLICY.replace('operator: "ann" ', ""))
        net.children["relay"].send_signal(signal.SIGHUP)
        net.start_collector()
        net.end("collector")
        net.fill_index(60, field(15, b"") * 21000, is_gap=1)
        net.start_collector()
        pid, costs = net.children["collector"].pid, []
        for who, request in (("bob", field(2, field(4, b"no=label"))), ("ann", field(2, b""))):
            reader = Reader(net, who)
            begin = cpu_seconds(pid)
            for _ in range(2):
                reader.send(request)
                reader.read_end()
            costs.append(cpu_seconds(pid) - begin)
        if costs[1] > 8 * costs[0]:
            raise Failed("the list takes %.2f s of CPU, the search %.2f s" % (costs[1], costs[0]))
        return net.judge("%.2f s of CPU, a search %.2f s; " % (costs[1], costs[0]))


class Giver(Spool):
    """A played host that keeps to the windows of its streams."""

    def __init__(self, peer):
        super().__init__(peer)
        self.connection, self.initial, self.windows, self.unsent = 65535, 65535, {}, []
        self.read_frame, peer.read = peer.read, self.read_and_note

    def read_and_note(self, timeout_s=60):
        got = self.read_frame(timeout_s)
        if got and got[0] == SETTINGS and not got[1] & ACK:
            for at in range(0, len(got[3]), 6):
                number, value = struct.unpack(">HI", got[3][at:at + 6])
                if number == 4:
                    self.initial = value
        elif got and got[0] == WINDOW:
            more = int.from_bytes(got[3], "big")
            if got[2] == 0:
                self.connection += more
            else:
                self.windows[got[2]] = self.windows.get(got[2], self.initial) + more
            self.send_on()
        elif got and got[0] == DATA and got[3]:
            credit = struct.pack(">I", len(got[3]))
            self.peer.send(frame(WINDOW, 0, 0, credit) + frame(WINDOW, 0, got[2], credit))
        return got

    def send_on(self):
        while self.unsent:
            stream, data = self.unsent[0]
            size = min(16000, len(data), self.connection, self.windows.get(stream, self.initial))
            if size <= 0:
                return
            self.peer.send(frame(DATA, 0, stream, data[:size]))
            self.connection -= size
            self.windows[stream] = self.windows.get(stream, self.initial) - size
            self.unsent[0] = (stream, data[size:])
            if size == len(data):
                self.unsent.pop(0)

    def reply(self, stream, number, *fields):
        message = field(1, number) + b"".join(fields)
        self.unsent.append((stream, len(message).to_bytes(4, "little") + message))
        self.send_on()


def heavy_descriptions(build):
    """segments without bytes, but with large descriptions, are within the bound of bytes"""
    report = (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)
    empty = hashlib.sha256(b"").digest()

    def make(number):
        return b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                         field(5, number), field(6, 0), field(7, empty), field(11, 1), field(12, 2),
                         field(16, b"\x01" * 60000)])

    with Collector(build, "--keep-bytes", "4M") as net:
        peer = agent(net.relay_address, str(net.keys), "host-eve")
        eve = Giver(peer)
        answer_all(peer, {**HELLO, "/v1/events": report}, lambda path: path == "/v1/events")
        net.start_collector()
        given, end = 0, time.monotonic() + 240
        while "cause=all-bytes" not in net.log("collector"):
            if time.monotonic() > end:
                raise Failed("%d segments of %d KiB of descriptions are kept" % (given, given * 60))
            got = eve.read()
            if got and got[2] == LIST_SEGMENTS and given < 60:
                eve.reply(got[0], got[1], field(2, 1), *[field(6, make(given + 1 + i)) for i in range(6)])
            elif got:
                given += got[2] == RELEASE_SEGMENT
                eve.reply(got[0], got[1])
        return net.judge("%d segments given; " % given)


def full_store(build):
    """a host that fills the store with a segment, and then gives a byte in 5 s of it, keeps no other host's out"""
    report = {**HELLO, "/v1/events": (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)}

    def make(size, sha):
        return field(6, b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"), field(5, 1),
                                  field(6, size), field(7, sha), field(11, 1), field(12, 2)]))

    with Collector(build) as net, contextlib.ExitStack() as stack:
        net.pki("host", "vic")
        store = net.dir / "store"
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=125m", "none", store], check=False).returncode != 0:
            return "SKIP no file system can be mounted"
        stack.callback(subprocess.run, ["umount", store], check=True)
        stack.callback(net.end, "collector")
        eve, vic = (Giver(agent(net.relay_address, str(net.keys), "host-" + name)) for name in ("eve", "vic"))
        answer_all(eve.peer, report, lambda path: path == "/v1/events")
        net.start_collector()
        data = os.urandom(4 << 20)
        given, reading, at, begin, is_stored = 0, None, 0, None, False
        piece, end = b"x" * 250000, time.monotonic() + 300
        while not is_stored:
            if time.monotonic() > end:
                raise Failed("the other host waits, after %d bytes: %s" % (given, net.log("collector")[-300:]))
            got = eve.read()
            if got and got[2] == READ_SEGMENT:
                reading, given = got, 0
            elif got:
                eve.reply(got[0], got[1], *([make(114 << 20, b"x" * 32)] if got[2] == LIST_SEGMENTS else []))
            free = os.statvfs(store)
            is_full = begin is not None or free.f_bavail * free.f_frsize < (11 << 20)
            part = piece if given < 113 << 20 else b"x"
            if reading and not eve.unsent and (part == piece or time.monotonic() - at > 5):
                eve.reply(reading[0], reading[1], field(2, 1), field(7, part))
                at, given = time.monotonic(), given + len(part)
            if is_full and begin is None:
                begin = time.monotonic()
                answer_all(vic.peer, report, lambda path: path == "/v1/events")
            got = vic.read() if begin is not None else None
            if got and got[2] == READ_SEGMENT:
                for i in range(0, len(data), 1 << 18):
                    vic.reply(got[0], got[1], *([field(2, 1)] if i + (1 << 18) < len(data) else []),
                              field(7, data[i:i + (1 << 18)]))
            elif got:
                is_stored = got[2] == RELEASE_SEGMENT
                vic.reply(got[0], got[1], *([make(len(data), hashlib.sha256(data).digest())] if got[2] == LIST_SEGMENTS else []))
        return net.judge("the other host's segment is stored after %.0f s; " % (time.monotonic() - begin))


def small_traces(build):
    """a host with traces of a byte, each of another hour, uses up neither the files of the store's disk nor its room"""
    report = {**HELLO, "/v1/events": (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)}

    def make(number):
        begin = number * 3600 * 10**9
        return field(6, b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"),
                                  field(5, number), field(6, 1), field(7, hashlib.sha256(b"x").digest()),
                                  field(11, begin), field(12, begin)]))

    with Collector(build) as net, contextlib.ExitStack() as stack:
        net.pki("host", "vic")
        store = net.dir / "store"
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=125m,nr_inodes=3000", "none", store], check=False).returncode != 0:
            return "SKIP no file system can be mounted"
        stack.callback(subprocess.run, ["umount", store], check=True)
        stack.callback(net.end, "collector")
        eve, vic = (Giver(agent(net.relay_address, str(net.keys), "host-" + name)) for name in ("eve", "vic"))
        answer_all(eve.peer, report, lambda path: path == "/v1/events")
        net.start_collector()
        given, folders, begin, is_stored, end = 0, 0, None, False, time.monotonic() + 240
        while not is_stored:
            if time.monotonic() > end:
                raise Failed("the other host waits, after %d traces in %d folders: %s" % (given, folders, net.log("collector")[-300:]))
            if begin is None and (given >= 1500 or "No space left on device" in net.log("collector")):
                begin, folders = time.monotonic(), len(list(store.glob("v1/test/*/*/*/*/eve")))
                answer_all(vic.peer, report, lambda path: path == "/v1/events")
            for host in (eve, vic) if begin is not None else (eve,):
                got = host.read()
                if not got:
                    continue
                first = given + 1 if host is eve else 1
                is_stored = is_stored or (host is vic and got[2] == RELEASE_SEGMENT)
                given += host is eve and got[2] == RELEASE_SEGMENT
                what = [field(2, 1), *(make(first + i) for i in range(60))] if begin is None or host is vic else []
                host.reply(got[0], got[1], *(what if got[2] == LIST_SEGMENTS else
                                             [field(7, b"x")] if got[2] == READ_SEGMENT else []))
        if folders > 2:
            raise Failed("%d traces are in %d folders" % (given, folders))
        return net.judge("%d traces, and the other host's is stored after %.0f s; " % (given, time.monotonic() - begin))


def gaps_said_again(build):
    """a host that says the same gaps again, each time with another begin, leaves no further files in the store"""
    report = {**HELLO, "/v1/events": (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)}

    def make(said):
        begin = time.time_ns() - said // 20 * 3600 * 10**9
        return field(6, b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"), field(5, said % 20 + 1),
                                  field(11, begin), field(12, begin), field(21, field(1, said % 20 + 1))]))

    with Collector(build) as net:
        eve = Giver(agent(net.relay_address, str(net.keys), "host-eve"))
        answer_all(eve.peer, report, lambda path: path == "/v1/events")
        net.start_collector()
        said, end = 0, time.monotonic() + 240
        while said < 400:
            if time.monotonic() > end:
                raise Failed("%d gaps are taken: %s" % (said, net.log("collector")[-300:]))
            got = eve.read()
            if got:
                said += got[2] == RELEASE_SEGMENT
                eve.reply(got[0], got[1], *([field(2, 1), *(make(said + i) for i in range(60))] if got[2] == LIST_SEGMENTS else []))
        files = len(list((net.dir / "store").glob("v1/**/*.json")))
        if files > 20:
            raise Failed("%d descriptions of 20 gaps" % files)
        return net.judge("%d times, %d files; " % (said, files))


def clock_behind(build):
    """what a collector stores whose clock is 8 days behind is not old for another one's retention"""
    report = {**HELLO, "/v1/events": (b'{"kind":"spool","segments":1,"bytes":90,"orders":"0000000000000000"}\n', False)}
    data, now = b"\x0a\x02\x50\x05" * 20, time.time_ns()
    segment = b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"), field(5, 1),
                        field(6, len(data)), field(7, hashlib.sha256(data).digest()), field(11, now), field(12, now)])
    shim = build / "tests/libclock_shim.so"
    with Postgres() as postgres, Collector(build) as net:
        if not postgres.is_there or not shim.exists():
            return "SKIP no PostgreSQL, or no clock that can be moved"
        offsets = net.dir / "offsets"
        offsets.write_bytes(struct.pack("16q", -8 * 86400 * 10**9, *[0] * 15))

        def start(name, *before):
            net.start(name, [*before, net.program("collector", "perfleet-collector"), "--relay", net.relay_address, "--store",
                             net.dir / "store", "--index", postgres.where, "--instance", name, "--keep", "*:age=7d",
                             *net.tls("operator-col")])
            wait_until(lambda: "serving: " in net.log(name), "a collector does not serve")

        start("right")
        wait_until(lambda: postgres.rows("SELECT count(*) FROM clock") == ["1"], "there is no cycle of retention")
        net.children["right"].send_signal(signal.SIGSTOP)  # the other one stores
        try:
            start("behind", "env", "LD_PRELOAD=%s" % shim, "PFL_CLOCK_SHIM=%s" % offsets)
            eve = Giver(agent(net.relay_address, str(net.keys), "host-eve"))
            answer_all(eve.peer, report, lambda path: path == "/v1/events")
            end = time.monotonic() + 60
            while postgres.rows("SELECT count(*) FROM segment WHERE state = 1") != ["1"]:
                if time.monotonic() > end:
                    raise Failed("nothing is stored: %s" % net.log("behind")[-300:])
                got = eve.read()
                if got:
                    eve.reply(got[0], got[1], *([field(6, segment)] if got[2] == LIST_SEGMENTS else
                                                [field(7, data)] if got[2] == READ_SEGMENT else []))
        finally:
            net.children["right"].send_signal(signal.SIGCONT)
        age_s = int(postgres.rows("SELECT round(extract(epoch FROM now()) - stored_ns / 1e9) FROM segment")[0])
        if age_s > 120:
            raise Failed("what was stored now is %d s old" % age_s)
        return net.judge("what was stored now is %d s old; " % age_s)


class PlayedRelay:
    """A relay with a certificate of the fleet, which answers each question by the same body, as fast as it is read,
    and lets operators whom nobody knows ask the collector."""

    def __init__(self, keys, name, body, has_end=True):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(keys / ("relay-%s.pem" % name), keys / ("relay-%s.key" % name))
        self.context.load_verify_locations(keys / "ca.pem")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["pfl-collector/1", "h2"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.body, self.has_end, self.asked = body, has_end, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError):
            peer = Peer.__new__(Peer)
            peer.__dict__.update(sock=self.context.wrap_socket(sock, server_side=True), pending=b"", is_closed=False,
                                 next_id=1)
            if peer.sock.selected_alpn_protocol() == "h2":
                self.answer_all(peer)
            peer.send(PREFACE + frame(SETTINGS, 0, 0))
            while not self.asked:
                peer.read(0.1)
            for i in range(0 if self.has_end else 90):
                peer.begin("CONNECT", "/v1/collector", [("perfleet-operator", "op%d" % (i // 3))], False,
                           protocol="perfleet-collector")
            while not peer.is_closed:
                peer.read(1)

    def answer_all(self, peer):
        left = len(PREFACE)
        while left:
            left -= len(peer.sock.recv(left))
        peer.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 8, 1)))
        rooms, first, sent = {0: 65535}, 65535, {}
        while not peer.is_closed:
            ready = [stream for stream in sent if min(rooms[0], rooms.get(stream, first)) > 16000]
            got = peer.read(0 if ready else 1)
            if got and got[0] == SETTINGS:
                first = dict(struct.iter_unpack(">HI", got[3])).get(4, first)
            elif got and got[0] == WINDOW:
                rooms[got[2]] = rooms.get(got[2], first) + int.from_bytes(got[3], "big")
            elif got and got[0] == HEADERS:
                peer.send(frame(HEADERS, END_HEADERS, got[2], b"\x88"))
                self.asked, sent[got[2]] = self.asked + 1, 0
            elif got and got[0] == RST:
                sent.pop(got[2], None)
            for stream in () if got else ready:
                piece = self.body[sent[stream]:sent[stream] + 16000]
                sent[stream] += len(piece)
                rooms[0], rooms[stream] = rooms[0] - len(piece), rooms.get(stream, first) - len(piece)
                is_last = sent[stream] == len(self.body)
                peer.send(frame(DATA, END_STREAM if is_last and self.has_end else 0, stream, piece))
                if is_last:
                    del sent[stream]


def long_lists(build):
    """a relay whose lists of spools, or whose operators' rights, are as long as can be, holds up nobody at the collector"""
    ends = b'{"version":"1","has_more":true,"is_from_start":true,"hosts":[1', b"]}"
    long, short = ends[0] + b",1" * ((8 << 20) - 100) + ends[1], ends[0] + b",{}" * 15000 + ends[1]
    found = []
    for body, has_end, most in ((long, True, 100), (short, True, 100), (b" " * (15 << 20), False, 250)):
        net = Collector(build)
        net.pki("relay", "liar", "--ip", "127.0.0.1")
        with net:
            relay = PlayedRelay(net.keys, "liar", body, has_end)
            net.options_of_collector = ("--relay", relay.address)
            net.start_collector()
            wait_until(lambda: relay.asked, "the collector does not ask the relay")
            pid, reader = net.children["collector"].pid, Reader(net, "ann")
            begin, used, answers = time.monotonic(), cpu_seconds(net.children["collector"].pid), 0
            while time.monotonic() < begin + 5:
                reader.send(field(2, field(12, 1)))
                reader.read_end()
                answers += 1
                time.sleep(0.02)
            share = (cpu_seconds(pid) - used) / (time.monotonic() - begin)
            peak = memory_kib(pid, "VmHWM") >> 10
            if share > (0.4 if has_end else 1) or peak > most:
                raise Failed("the collector takes %.2f of a core and %d MiB: %d answers" % (share, peak, answers))
            found.append("%.2f of a core, %d MiB, %d answers" % (share, peak, answers))
    return "; ".join(found)
