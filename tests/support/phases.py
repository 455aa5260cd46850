#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in each phase of a recording: hosts that die or are stuck, disks, signals.

  phases.py BIN WORK SHIM PAGE [ROWS]

BIN has the programs, SHIM is disk_shim, PAGE has a row for each case, as it is made here; ROWS is a
file for the rows as they are now. Every case records host `one` and host `two`, which gate.py has
stopped at the phase. A line of TAP each."""
import collections
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

from gate import Gate
from service_peers import fields

LIMIT_S = 120
WORLDS = 3
SEQUENCE, MACHINE = 10, 98
SMALL_BYTES = 16384
RECORDED_MS = (400, 4000, 20000)  # where the machine is too slow for one, the next
USUAL = re.compile(r"starting |recording |stopping|reading$|copying the session of |start skew|trace |INCOMPLETE|"
                   r"session \S+ runs on|host \S+: (started|stopped|read |N packets)|streaming: |interrupted: what|"
                   r"perfleet: (warning|note)|  lost: N (gaps|flushes)|  the service did not tell")
# The request that a phase begins with.
PHASES = {"connecting": "BindService", "setting up": "EnableTracing", "finding": "Attach",
          "starting": "StartTracing", "leaving": "Detach", "stopping": "Flush", "copying": "CloneSession",
          "ending": "DisableTracing", "reading": "ReadBuffers", "freeing": "FreeBuffers"}
BIN, WORK, SHIM = "", "", ""
Case = collections.namedtuple("Case", "command phase event")

AWAY = [Case(command, phase, event) for command, phases in (
    ("record", ("connecting", "setting up", "starting", "recording", "stopping", "reading", "freeing")),
    ("record --stream", ("recording",)),
    ("start", ("setting up", "starting", "leaving")),
    ("read", ("finding", "stopping", "ending", "copying", "reading", "freeing")),
    ("stop", ("finding", "stopping", "ending")),
    ("snapshot", ("copying", "reading", "freeing"))) for phase in phases for event in ("dies",)]
AWAY += [Case("record", phase, "is stuck") for phase in ("connecting", "starting", "stopping", "reading", "freeing")]
SIGNALS = [Case(command, phase, event) for command, phases in (
    ("record", ("setting up", "starting", "recording", "stopping", "reading", "freeing")),
    ("record --stream", ("recording",)), ("start", ("starting",)),
    ("read", ("finding", "stopping", "copying", "reading", "freeing")),
    ("snapshot", ("copying",))) for phase in phases for event in ("Ctrl-C", "Ctrl-C twice")]
SIGNALS.remove(Case("record", "stopping", "Ctrl-C"))  # the first one led there
SIGNALS.remove(Case("record", "setting up", "Ctrl-C twice"))  # the first one ended it
SIGNALS.remove(Case("read", "finding", "Ctrl-C twice"))
SIGNALS += [Case("record", "recording", "SIGTERM"), Case("record", "recording", "the terminal closes"),
            Case("record", "reading", "the terminal closes"), Case("read", "stopping", "the terminal closes"),
            Case("record", "recording", "the terminal closes, with nohup"),
            Case("record", "syncing", "Ctrl-C"), Case("record", "syncing", "Ctrl-C twice"),
            Case("read", "syncing", "Ctrl-C twice"),
            Case("record", "starting", "standard error is closed"), Case("record", "starting", "all streams are closed"),
            Case("record", "writing", "who reads -o - ends")]
DISKS = [Case(command, phase, event) for command in ("record", "read") for phase, event in (
    ("starting", "no such folder"), ("reading", "a disk that is too small"), ("writing", "EDQUOT"), ("syncing", "EIO"),
    ("renaming", "ENOSPC"))]
DISKS += [Case("record", "starting", "a disk that is read-only"), Case("record", "recording", "the folder is removed"),
          Case("record --stream", "recording", "the folder is removed"),
          Case("record --stream", "recording", "a disk that is too small")]
CALLS = {"writing": "write", "syncing": "fsync", "renaming": "rename"}


def wait_until(question, what):
    end = time.monotonic() + LIMIT_S
    while not question():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def perfleet(*args):
    return subprocess.run([BIN + "/perfleet", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False).stdout


class World:
    """Two services, and one case at a time."""

    def __init__(self, number):
        self.sockets = {name: f"{WORK}/{name}-{number}/consumer.sock" for name in ("one", "two")}

    def hosts(self, two=None, one=None):
        return ["--host", "one=unix:" + (one or self.sockets["one"]), "--host", "two=unix:" + (two or self.sockets["two"])]

    def sessions(self, name):
        """Where a session of that name is, and the key under which it was left."""
        found = {}
        for host, path in self.sockets.items():
            for line in perfleet("ps", "--host", "unix:" + path).splitlines():
                if f'"{name}"' in line:
                    key = re.search(r'left as "([^"]+)"', line)
                    found[host] = key[1] if key else name
        return found


def config(path, name, ms):
    with open(path, "w", encoding="ascii") as file:
        file.write(f'buffers {{ size_kb: 1024 fill_policy: RING_BUFFER }}\nduration_ms: {ms}\nunique_session_name: "{name}"\n'
                   'data_sources { config { name: "com.example.load" } }\n')
    return path


def machines_in(path):
    with open(path, "rb") as file:
        packets = [fields(packet) for number, packet in fields(file.read()) if number == 1]
    return {dict(packet).get(MACHINE) for packet in packets if dict(packet).get(SEQUENCE, 1) != 1}


def where(found):
    return {0: "freed", 1: "there: " + "".join(found), 2: "there: both"}[len(found)]


class Run:
    def __init__(self, world, case, number, page, ms):
        self.world, self.case, self.name, self.page, self.ms = world, case, f"case-{number}-{ms}", page, ms
        self.dir = f"{WORK}/{self.name}.mnt"
        self.out = self.dir + "/x.pftrace"
        self.fifo = f"{WORK}/{self.name}.fifo"
        self.log = f"{WORK}/{self.name}.words"
        self.env, self.prefix, self.mounted, self.held, self.gate, self.other = {}, [], False, None, None, None
        os.mkdir(self.dir)

    def arguments(self):
        command = self.case.command.split()
        if command[0] in ("record", "start"):
            ends = self.case.phase in ("recording", "stopping") and "folder" not in self.case.event
            ms = 600000 if ends and self.case.event != "a disk that is too small" else self.ms
            ms = 600000 if command[-1] == "--stream" else ms
            command += [self.name] if command[0] == "start" else []
            command += ["--no-stream"] if command == ["record"] else []
            command += ["-c", config(f"{WORK}/{self.name}.pbtx", self.name, ms)]
        else:
            command.append(self.name)
        if command[0] not in ("start", "stop"):
            command += ["-o", "-" if self.case.event == "who reads -o - ends" else self.out]
        return command + ["--timeout", "2s" if self.case.event == "is stuck" else "60s"]

    def words(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def said(self, words):
        wait_until(lambda: re.search(words, self.words(), re.M) or self.process.poll() is not None, words)

    def begin(self):
        case = self.case
        if case.command in ("read", "stop", "snapshot"):
            path = config(f"{WORK}/{self.name}-left.pbtx", self.name, 0)
            perfleet("start", self.name, "-c", path, "-q", *self.world.hosts())
            wait_until(self.has_data, "data of both hosts")
        method = PHASES.get(case.phase)
        if method and case in AWAY + SIGNALS and "closed" not in case.event:
            visits = case.command in ("read", "stop") and case.phase in ("finding", "stopping", "ending") and case.event == "dies"
            self.gate = Gate(f"{WORK}/{self.name}.sock", self.world.sockets["two"], method, passes=visits)
        elif case.phase == "recording" and case.event == "dies":
            self.gate = Gate(f"{WORK}/{self.name}.sock", self.world.sockets["two"], "", 1 << 30)
        if (case.phase, case.event) == ("finding", "Ctrl-C"):
            self.other = Gate(f"{WORK}/{self.name}-one.sock", self.world.sockets["one"], method)
        self.prepare()
        hosts = self.world.hosts(self.gate and f"{WORK}/{self.name}.sock", self.other and f"{WORK}/{self.name}-one.sock")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.prefix + [BIN + "/perfleet", *self.arguments(), *hosts], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=dict(os.environ, **self.env))

    def prepare(self):
        event, phase = self.case.event, self.case.phase
        if event == "no such folder":
            os.rmdir(self.dir)
        elif event.startswith("a disk"):
            option = "ro" if event.endswith("read-only") else f"size={SMALL_BYTES}"
            subprocess.run(["mount", "-t", "tmpfs", "-o", option, "tmpfs", self.dir], check=True)
            self.mounted = True
        elif phase in CALLS and event != "who reads -o - ends":
            self.env = {"LD_PRELOAD": SHIM, "PFL_DISK_CALL": CALLS[phase]}
            if event in errno.errorcode.values():
                self.env["PFL_DISK_ERRNO"] = str(getattr(errno, event))
            else:
                os.mkfifo(self.fifo)
                self.env["PFL_DISK_GATE"] = self.fifo
        shells = {"standard error is closed": 'exec "$@" 2>&-', "all streams are closed": 'exec "$@" <&- >&- 2>&-',
                  "who reads -o - ends": '"$@" | true; exit ${PIPESTATUS[0]}',
                  "the terminal closes, with nohup": 'trap "" HUP; exec "$@"'}
        if event in shells:
            self.prefix = ["bash", "-c", shells[event], "-"]

    def act(self):
        event, gate, process = self.case.event, self.gate, self.process
        held = None
        if (self.case.command, self.case.phase) == ("record", "stopping"):
            self.said("^recording ")
            wait_until(self.has_data, "data of both hosts")
            process.send_signal(signal.SIGINT)
        if gate and gate.left < 1 << 29:
            wait_until(lambda: gate.reached.is_set() or process.poll() is not None, "the phase")
            if self.other:
                wait_until(self.other.reached.is_set, "the phase of the other host")
            if (self.case.command, self.case.phase) == ("read", "freeing"):
                wait_until(lambda: "one" not in self.world.sessions(self.name), "the other host freed it")
            if (self.case.command, self.case.phase, event) == ("record", "starting", "Ctrl-C"):
                wait_until(lambda: self.has_data(self.world.hosts()[:2]), "data of the first host")
        elif self.case.phase == "recording":
            self.said("^recording ")
            if self.case.command == "record":
                wait_until(self.has_data, "data of both hosts")
            elif "disk" not in event:
                wait_until(self.is_streamed, "a streamed file of both hosts")
        elif "PFL_DISK_GATE" in self.env:
            wait_until(lambda: self.opened() or process.poll() is not None, "the disk's call")
            held = self.held
        self.strike()
        if held is not None:
            if event == "Ctrl-C twice":  # which ends it while its disk stands still
                wait_until(lambda: process.poll() is not None, "its end")
            os.close(held)

    def has_data(self, hosts=None):
        """All of them in the session, and more than the small disk has room for."""
        probe = f"{WORK}/{self.name}.probe"
        return subprocess.run([BIN + "/perfleet", "snapshot", self.name, "-q", "-o", probe, *(hosts or self.world.hosts())],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=LIMIT_S, check=False).returncode in (0, 3) and os.path.getsize(probe) > 2 * SMALL_BYTES

    def is_streamed(self):
        with contextlib.suppress(IndexError):  # the end of what is being written
            return len(machines_in(self.out + ".partial")) == 2
        return False

    def opened(self):
        try:
            self.held = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:  # nobody waits there yet
            assert error.errno == errno.ENXIO, error
        return self.held is not None

    def strike(self):
        event, gate, process = self.case.event, self.gate, self.process
        if event == "dies":
            gate.die()
            if self.case.phase == "recording":
                self.said("two .*: recording: ")
                process.send_signal(signal.SIGINT)
        elif event.startswith("Ctrl-C"):
            process.send_signal(signal.SIGINT)
            if (self.case.command, self.case.phase) == ("record", "stopping"):
                return  # the first one led there
            if event == "Ctrl-C twice":
                process.send_signal(signal.SIGTERM)  # a second SIGINT could be one with the first
                return
            if self.case.phase in ("stopping", "reading", "copying", "starting") and self.case.command != "start":
                self.said("interrupted: |stopping$")
            if (self.case.command, self.case.phase) == ("record", "starting"):
                gate.go_on_to("Flush")
                wait_until(gate.reached.is_set, "the flush")
                wait_until(self.has_data, "data of both hosts")
            if gate and self.case.phase not in ("setting up", "finding"):  # which end with it
                gate.open()
        elif event == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        elif event.startswith("the terminal closes"):
            process.send_signal(signal.SIGHUP)
            if "nohup" in event:
                process.send_signal(signal.SIGINT)
                return
            self.said("interrupted: |stopping$")
            process.send_signal(signal.SIGHUP)
            if gate:
                gate.open()
        elif event == "the folder is removed":
            shutil.rmtree(self.dir)
            if self.case.command == "record":
                process.send_signal(signal.SIGINT)

    def row(self):
        self.begin()
        try:
            self.act()
            code = self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
            if self.other:
                self.other.die()
            if self.gate and self.case.phase == "finding":
                self.gate.die()  # what it holds never came
            elif self.gate:
                self.gate.open()
        if self.case.event == "Ctrl-C twice" and code == -signal.SIGTERM:
            code = -signal.SIGINT
        cells = (f"`{self.case.command}`", self.case.phase, self.case.event, self.steady(),
                 str(128 - code if code < 0 else code), self.file())
        cells += (self.left(cells),)
        return "| " + " | ".join(cells) + " |"

    def steady(self):
        words = self.words().replace(self.dir + "/", "").replace(WORK + "/", "")
        for old, new in ((re.escape(self.name) + r"\b", "night"), (r"\((unix:[^)]*)\)", "(...)"), (r"unix:\S+\.sock", "two"),
                         (r"record-[0-9-]+\.kept", "record-DATE-PID.kept"), (r"\d+ (bytes|packets|gaps|flushes)", r"N \1"),
                         (r"\d+\.\d+ MB", "N MB"), (r"^perfleet: host", "host")):
            words = re.sub(old, new, words, flags=re.M)
        lines = [line.replace("|", "\\|").strip() for line in words.splitlines() if line and not USUAL.match(line)]
        for line in lines:
            if lines.count(line) > 1:
                raise ValueError("said twice: " + line)
        return "<br>".join(lines)

    def file(self):
        for path, word in ((self.out, ""), (self.out + ".partial", "partial: ")):
            if os.path.exists(path):
                if (self.case.command, self.case.event) == ("record --stream", "a disk that is too small"):
                    return word + "some"  # what came first
                found = len(machines_in(path))
                return word + ["no host", "one", "both"][found]
        return "none"

    def left(self, cells):
        """As the page has it, as soon as the services have seen that the connections ended."""
        wanted = {row.split(" | ")[-1].rstrip(" |") for row in self.page
                  if row.startswith("| " + " | ".join(cells[:3]) + " |")}
        end = time.monotonic() + (20 if wanted else 1)
        while where(found := self.world.sessions(self.name)) not in wanted and time.monotonic() < end:
            time.sleep(0.05)
        for host, key in found.items():
            perfleet("kill", key, "--host", "unix:" + self.world.sockets[host])
        return where(found)

    def end(self):
        if self.mounted:
            subprocess.run(["umount", self.dir], check=False)


def judge(pool, case, number, page):
    world = pool.get()
    for ms in RECORDED_MS:
        run = Run(world, case, number, page, ms)
        try:
            row = run.row()
            claim = row in page
            why = "" if claim else "not in the page: " + row + "\n" + run.words()
        except Exception as error:  # whatever it is, it is this case's failure
            row, claim, why = "", False, f"{type(error).__name__}: {error}\n" + (run.words() if os.path.exists(run.log) else "")
        finally:
            run.end()
        if claim or "EMPTY" not in row:
            break
    pool.put(world)
    words = ("ok" if claim else "not ok") + f" - {case.command}, {case.phase}: {case.event}"
    return row, words + "".join("\n#   " + line for line in why.splitlines())


def main():
    global BIN, WORK, SHIM
    BIN, WORK, SHIM = sys.argv[1:4]
    with open(sys.argv[4], encoding="utf-8") as file:
        page = set(file.read().splitlines())
    pool = Queue()
    for number in range(WORLDS):
        pool.put(World(number))
    cases = AWAY + SIGNALS + [case for case in DISKS if os.geteuid() == 0 or not case.event.startswith("a disk")]
    with ThreadPoolExecutor(WORLDS) as executor:
        rows = []
        for row, words in executor.map(lambda item: judge(pool, item[1], item[0], page), enumerate(cases)):
            rows.append(row)
            print(words, flush=True)
    if len(sys.argv) > 5:
        with open(sys.argv[5], "w", encoding="utf-8") as file:
            file.write("".join(row + "\n" for row in rows if row))


if __name__ == "__main__":
    main()
