# SPDX-License-Identifier: Apache-2.0
"""The seat of a host that has ten million segments of a second, beside an honest one that has a segment a second."""
import contextlib
import hashlib
import os
import sqlite3
import statistics
import subprocess
import threading
import time

from attacks.collection import HELLO, LIST_SEGMENTS, READ_SEGMENT, field
from attacks.collector import RELEASE_SEGMENT, Collector, Giver
from fleet import cpu_seconds, memory_kib, wait_until
from tunnel_abuse import agent, answer_all
from world import Failed, dict_of_lists, get_slowness

ATTACKS = ["ten_million_segments", "other_bytes_again", "gaps_over_what_is_stored", "announced_and_not_given",
           "gaps_over_its_traces"]
TEN_MILLION = 10_000_000
RUN = b"01ARZ3NDEKTSV4RRFFQ69G5FAV"
STORE_KIB = 256 << 10
LONGEST_S = 300
LONG_LABEL = b"a=" + b"\x01" * 60000
STORED_NUMBERS = 200_000
MEMORY_KIB = 80 << 10
QUIET_S, ATTACKED_S = 6, 15
ORDER = """name: "web"
select { }
config { buffers { size_kb: 1024 } data_sources { config { name: "com.example.load" } } }
continuous { segment_ms: 1000 }
"""


class Ten(Collector):
    """The collector's store is a file system of its own."""

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk,mode=700" % STORE_KIB, "none", self.dir / "store"], check=True)
        return super().__enter__()

    def __exit__(self, *why):
        for child in self.children.values():
            child.terminate()
        for child in self.children.values():
            child.wait(60)
        subprocess.run(["umount", "--lazy", self.dir / "store"], check=True)
        return super().__exit__(*why)

    def start_collector(self):
        super().start_collector()
        self.pid = self.children["collector"].pid
        self.store = self.dir / "store"

    def start_honest(self):
        """Host good, with an order for segments of a second."""
        self.make_hosts(["good"])
        segments = self.dir / "segments"
        segments.mkdir()
        self.start_service("good", "--output-dir", segments)
        self.start_agent("good", None, "--segments-dir", segments)
        self.start("writer", [self.bin / "perfleet-example", "--rate", 100], env=self.sockets("good"))
        (self.dir / "order").write_text(ORDER)
        wait_until(lambda: self.ask("order", "put", self.dir / "order").returncode == 0, "no order is taken")

    def fill_run(self, numbers):
        """Host eve has stored so many."""
        now = time.time_ns()
        with contextlib.closing(sqlite3.connect(self.dir / "store" / "index.sqlite")) as db:
            db.execute("INSERT INTO host(name) VALUES('eve')")
            db.execute("INSERT INTO run(host_id, orderer, order_name, incarnation, kind_id, last, stored, changed_ns)"
                       " SELECT id, 'me', 'web', ?, 1, ?, ?, ? FROM host WHERE name = 'eve'",
                       (RUN.decode(), numbers, numbers, now))
            db.executemany("INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns, end_ns,"
                           " bytes, object_key, definition, collector, generation, changed_ns, stored_ns)"
                           " SELECT '01J' || printf('%023d', ?1), run.id, host_id, ?1, ?1, 0, 0, 3, ?1, ?1, 9, '', NULL,"
                           " 'col', 1, ?2, ?2 FROM run", ((i, now) for i in range(2, numbers, 2)))
            db.commit()

    def used_kib(self):
        fs = os.statvfs(self.store)
        return (fs.f_blocks - fs.f_bfree) * fs.f_frsize >> 10

    def find(self, statement, *values):
        with sqlite3.connect("file:%s/index.sqlite?mode=ro" % self.store, uri=True, timeout=60) as db:
            rows = db.execute(statement, values).fetchall()
        db.close()
        return rows

    def waits(self, host, begin, end):
        """From the ends of its segments until they were stored, of those that ended between."""
        return [(stored - ended) / 1e9 for ended, stored in self.find(
            "SELECT end_ns, stored_ns FROM segment WHERE host_id = (SELECT id FROM host WHERE name = ?)"
            " AND state BETWEEN 1 AND 3 AND is_gap = 0 AND end_ns BETWEEN ? AND ?", host, int(begin * 1e9), int(end * 1e9))]

    def count(self, host):
        return self.find("SELECT COALESCE(SUM(stored + removed), 0) FROM run JOIN host ON host.id = host_id WHERE name = ?",
                         host)[0][0]

    def ask_operator(self):
        """The longest of an operator's questions, in seconds."""
        worst_s = 0
        for words in (("traces", "list", "--host", "good", "--json"), ("order", "show", "web"), ("traces", "missing")):
            begin = time.monotonic()
            done = self.ask(*words)
            if done.returncode not in (0, 3, 4):
                raise Failed("%s: %s" % (" ".join(words), done.stderr[-300:]))
            worst_s = max(worst_s, time.monotonic() - begin)
        return worst_s


class Million(Giver):
    """A played host with ten million segments, made when they are asked for."""

    def __init__(self, peer, content=b"", first=1, gap=None, is_empty=False, label=None):
        super().__init__(peer)
        self.content, self.next, self.gap, self.is_empty, self.label = content, first, gap, is_empty, label
        self.released, self.listed, self.has_ended = 0, 0, False
        self.begin_ns = time.time_ns() - TEN_MILLION * 10**9

    def make(self, number):
        begin = self.begin_ns + number * 10**9
        common = [field(2, b"me"), field(3, b"web"), field(4, RUN), field(5, number), field(11, begin),
                  field(12, begin + 10**9)]
        if self.label:
            common.append(field(16, self.label))
        if self.gap:
            return b"".join(common) + field(6, 0) + field(21, field(1, self.gap(number)))
        data = self.bytes_of(number)
        return b"".join(common) + field(6, len(data)) + field(7, hashlib.sha256(data).digest())

    def bytes_of(self, number):
        return self.content + b"%d" % number

    def serve(self):
        got = self.read()
        if not got:
            return
        asked = dict_of_lists(dict_of_lists(self.message)[got[2]][0])
        if got[2] == LIST_SEGMENTS:
            after = self.next - 1 if self.label else max(self.next - 1, asked.get(2, [0])[0])
            page = 6 if self.label else 256
            self.listed += page
            self.reply(got[0], got[1], field(2, 1), *[field(6, self.make(after + 1 + i)) for i in range(page)])
        elif got[2] == READ_SEGMENT and self.is_empty:
            self.reply(got[0], got[1], field(3, 404))
        elif got[2] == READ_SEGMENT:
            self.reply(got[0], got[1], field(7, self.bytes_of(asked[2][0])[asked.get(3, [0])[0]:]))
        elif got[2] == RELEASE_SEGMENT:
            is_late = self.label and 3 in asked  # of bytes, which the run before gave
            self.released += not is_late
            if not self.content and not is_late:  # other bytes under known numbers begin with the first, always
                self.next = max(self.next, asked[2][0] + 1)
            self.reply(got[0], got[1])
        else:
            self.reply(got[0], got[1])

    def run(self):
        while not self.has_ended and not self.peer.is_closed:
            self.serve()


def play(net, **more):
    """Host eve reports ten million segments, and gives what is asked for on a thread."""
    report = (b'{"kind":"spool","segments":%d,"bytes":%d,"orders":"0000000000000000"}\n' %
              (TEN_MILLION, TEN_MILLION * 8), False)
    peer = agent(net.relay_address, str(net.keys), "host-eve")
    eve = Million(peer, **more)
    answer_all(peer, {**HELLO, "/v1/events": report}, lambda path: path == "/v1/events")
    eve.thread = threading.Thread(target=eve.run, daemon=True)
    eve.thread.start()
    return eve


def end(eve):
    eve.has_ended = True
    eve.thread.join(60)
    eve.peer.sock.close()


def measure(net, seconds, is_enough=lambda: True):
    """Of the honest host, while it lasts: the median of its segments' waits; the longest question of an operator."""
    begin, worst_s = time.time(), 0
    while time.time() < begin + seconds or not is_enough():
        if time.time() > begin + LONGEST_S:
            raise Failed("it does not come so far")
        worst_s = max(worst_s, net.ask_operator())
        time.sleep(1)
    over = time.time()
    wait_until(lambda: net.waits("good", over, over + 60), "the honest host's segments are not stored", 120)
    waits = net.waits("good", begin, over)
    return {"median": statistics.median(waits), "worst": max(waits), "segments": len(waits), "question": worst_s,
            "seconds": over - begin}


def begin(net):
    """The honest host's segments are stored: how fast, while nobody attacks."""
    net.start_collector()
    net.start_honest()
    wait_until(lambda: net.count("good") >= 3, "the honest host has no segments")
    return measure(net, QUIET_S)


def judge(net, quiet, under, words):
    peak_kib = memory_kib(net.pid, "VmHWM")
    print("# %s; the other host's segments wait %.2f s (%.2f at most), %.2f before; an operator %.2f s at most, %.2f before; "
          "the collector %d KiB at most, %.1f s of CPU" % (
              words, under["median"], under["worst"], quiet["median"], under["question"], quiet["question"], peak_kib,
              cpu_seconds(net.pid)), flush=True)
    if under["median"] > 2 * quiet["median"] * get_slowness():
        raise Failed("an honest host's segments wait %.2f s, %.2f s before; %s" % (under["median"], quiet["median"], words))
    if under["question"] > 3 * get_slowness():
        raise Failed("an operator waits %.1f s; %s" % (under["question"], words))
    if peak_kib > MEMORY_KIB:
        raise Failed("the collector takes %d KiB; %s" % (peak_kib, words))


def ten_million_segments(build):
    """a host with ten million segments of a second fills neither the store nor the index, and delays no other host's"""
    with Ten(build, "--keep-bytes", "4M") as net:
        quiet = begin(net)
        eve = play(net)
        under = measure(net, ATTACKED_S, lambda: "cause=all-bytes" in net.log("collector") and eve.released > 1000)
        end(eve)
        words = "%d taken, %d KiB of disk" % (eve.released, net.used_kib())
        judge(net, quiet, under, words)
        if "store-failed" in net.log("collector") or "index-failed" in net.log("collector"):
            raise Failed("the store fails: " + words)
        wait_until(lambda: net.find("SELECT SUM(bytes) FROM run")[0][0] <= 4 << 20, "bound of bytes: " + words, LONGEST_S)
        rows = net.find("SELECT COUNT(*) FROM segment WHERE state IN (0, 1)")[0][0]
        if rows > (4 << 20) // 8192:
            raise Failed("%d traces are in 4 MiB; %s" % (rows, words))
        return net.judge("%s, then %d KiB; " % (words, net.used_kib()))


def other_bytes_again(build):
    """a host that gives other bytes under ten million numbers has them left, counted, and delays no other host's"""
    with Ten(build) as net:
        quiet = begin(net)
        eve = play(net)
        wait_until(lambda: net.count("eve") >= 2000, "its segments are not stored", 120)
        end(eve)
        stored = net.count("eve")
        eve = play(net, content=b"other ")
        under = measure(net, ATTACKED_S)
        end(eve)
        words = "%d listed again" % eve.listed
        judge(net, quiet, under, words)
        if net.count("eve") > stored + 1 or "segment-left-at-host: host=eve reason=conflict" not in net.log("collector"):
            raise Failed("%d are stored, %d before; %s" % (net.count("eve"), stored, words))
        return net.judge(words + "; ")


def gaps_over_what_is_stored(build):
    """a host with gaps over numbers that are stored has them left, and delays no other host's"""
    with Ten(build) as net:
        net.start_collector()
        net.end("collector")
        net.fill_run(STORED_NUMBERS)
        quiet = begin(net)
        eve = play(net, first=1, gap=lambda number: (1 << 32) - 1 - number)
        under = measure(net, ATTACKED_S)
        end(eve)
        words = "%d listed" % eve.listed
        judge(net, quiet, under, words)
        if "segment-left-at-host: host=eve reason=limit" not in net.log("collector"):
            raise Failed("they are taken: " + words)
        return net.judge(words + "; ")


def announced_and_not_given(build):
    """a host that announces ten million segments and gives none of them leaves no rows in the index"""
    with Ten(build) as net:
        quiet = begin(net)
        eve = play(net, is_empty=True)
        under = measure(net, ATTACKED_S)
        end(eve)
        rows = net.find("SELECT COUNT(*) FROM segment WHERE host_id = (SELECT id FROM host WHERE name = 'eve')")[0][0]
        words = "%d listed, %d rows" % (eve.listed, rows)
        judge(net, quiet, under, words)
        if rows > 1:
            raise Failed(words)
        return net.judge(words + "; ")


def gaps_over_its_traces(build):
    """a host with a gap, of a long label, over each of its stored traces changes no description, and rebuild has the traces"""
    with Ten(build) as net:
        net.start_collector()
        net.make_hosts(["eve"])
        eve = play(net)
        wait_until(lambda: eve.released >= 100, "its segments are not stored", 120)
        end(eve)
        stored = net.count("eve")
        before = {path: path.read_bytes() for path in net.store.rglob("*.json")}
        eve = play(net, gap=lambda number: number, label=LONG_LABEL)
        wait_until(lambda: eve.released >= 100, "its gaps are not taken", 120)
        end(eve)
        changed = [path for path, content in before.items() if path.read_bytes() != content]
        if not before or changed:
            raise Failed("%d of %d descriptions are others" % (len(changed), len(before)))
        net.end("collector")
        for path in net.store.glob("index.sqlite*"):
            path.unlink()
        rebuild = subprocess.run([net.program("collector", "perfleet-collector"), "rebuild", "--store", net.store,
                                  "--index", "sqlite:%s/index.sqlite" % net.store], text=True, capture_output=True, check=False)
        if rebuild.returncode != 0:
            raise Failed("rebuild: " + rebuild.stderr[-300:])
        if net.count("eve") < stored:
            raise Failed("%d of %d traces after rebuild" % (net.count("eve"), stored))
        return net.judge("%d traces, %d gaps over them; " % (stored, eve.released))
