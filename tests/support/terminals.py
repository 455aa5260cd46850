#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator sees: perfleet in real terminals (tmux) of several widths, with 1, 20 and 500 hosts.

  tests/support/terminals.py BUILD

The hosts are perfleet-agent's own agents, many to a process (bench_agents), before a few services.
Prints lines of TAP without numbers. Claims hold for each sample of the screen, taken ten times a second.
"""
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fleet import Fleet, wait_until  # noqa: E402

PER_PROCESS = 125
WIDTHS = (60, 80, 200)
SOURCE = "com.example.load"
BAR = re.compile(r"\[[#.]{3,}")


def claim(words, problems):
    """Holds when the list is empty."""
    print(("ok - " if not problems else "not ok - ") + words, flush=True)
    for problem in problems[:6]:
        for line in str(problem).splitlines()[:30]:
            print(f"#   {line}", flush=True)


class Terminal:
    """One terminal in which one command runs; its server of tmux is its own."""

    made = 0

    def __init__(self, fleet, width, command, height=24):
        Terminal.made += 1
        self.socket = fleet.dir / f"tmux{Terminal.made}"
        self.code_file = fleet.dir / f"code{Terminal.made}"
        words = " ".join(shlex.quote(w) for w in command)
        script = f"trap : INT; {words}; echo $? > {self.code_file}.new; mv {self.code_file}.new {self.code_file}; exec sleep 600"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "sh", "-c", script)
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "TERM": "xterm-256color"}, timeout=30)
        if done.returncode != 0:
            raise RuntimeError(f"tmux {words[0]}: {done.stderr}")
        return done.stdout

    def screen(self):
        return [line for line in self.tmux("capture-pane", "-p").splitlines() if line.strip()]

    def history(self):
        """The screen with all that left it at the top, one entry for each line of the program."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-J", "-S", "-").splitlines() if line.strip()]

    def unwrapped(self):
        """The screen, one entry for each line of the program: one that wraps is longer than the terminal."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-J").splitlines() if line.strip()]

    def modes(self):
        """Is it the alternate screen, and is there a cursor?"""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()

    def resize(self, width, height=24):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def press(self, key):
        self.tmux("send-keys", key)

    def has_ended(self):
        return self.code_file.exists()

    def watch(self, limit_s=120):
        """Screens until the command has ended."""
        end = time.monotonic() + limit_s
        while not self.has_ended():
            if time.monotonic() > end:
                raise TimeoutError("\n".join(self.screen()))
            yield self.screen()
            time.sleep(0.1)

    def wait(self, limit_s=120):
        for _ in self.watch(limit_s):
            pass
        return int(self.code_file.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False)


class World:
    def __init__(self, fleet):
        self.fleet = fleet
        self.config = fleet.dir / "config.pbtx"
        self.out = fleet.dir / "out.pftrace"
        self.config.write_text("buffers { size_kb: 256 }\n"
                               f'data_sources {{ config {{ name: "{SOURCE}" }} }}\n')

    def start_agents(self, first, count):
        """One process; its hosts are h<first>, h<first+1>, ..."""
        name = f"agents-{first}"
        self.fleet.make_hosts(f"h{i}" for i in range(first, first + count))
        self.fleet.start_service(f"s{first}", "--max-sessions", "1000,1000")
        self.fleet.start(f"example-{first}", [self.fleet.bin / "perfleet-example"], env=self.fleet.sockets(f"s{first}"))
        self.fleet.start(name, [self.fleet.bin.parent / "bench/bench_agents", self.fleet.relay_address, self.fleet.keys,
                                self.fleet.dir / f"s{first}/c", "h", first, count])
        return name

    @staticmethod
    def good_codes(hosts):
        """A program's data source has eight instances at most: of more hosts that share a service, some have no data."""
        return (0,) if hosts <= 8 else (0, 6)

    def connected(self):
        return self.fleet.ask("hosts", "--json").stdout.count('"is_connected": true')

    def count(self, family):
        """A figure of the relay's."""
        with socket.socket(socket.AF_UNIX) as metrics:
            metrics.settimeout(60)
            metrics.connect(str(self.fleet.dir / "relay.metrics"))
            metrics.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: metrics.recv(65536), b"")).decode()
        return float(re.search(rf"^{re.escape(family)} (\S+)", text, re.M)[1])

    def start_relay(self):
        self.fleet.start_relay("--max-connections", "4096", "--metrics-socket", self.fleet.dir / "relay.metrics")

    def wait_for(self, count):
        wait_until(lambda: self.connected() == count, f"not {count} hosts", 180)

    def record(self, *options):
        return self.fleet.operator("record", "-c", self.config, "-o", self.out, "--select", "*", *options)


def bars_of(screen):
    return [line for line in screen if BAR.search(line)]


def check_bar(world, hosts, width):
    """A bar is one line, however long the recording; and it is gone when the recording is over."""
    problems, seen = [], 0
    with Terminal(world.fleet, width, world.record("--duration", "2s")) as terminal:
        for screen in terminal.watch():
            seen += bool(bars_of(screen))
            if len(bars_of(screen)) > 1 and not problems:
                problems.append("\n".join(screen))
        if bars_of(terminal.screen()):
            problems.append("left over:\n" + "\n".join(terminal.screen()))
        code = terminal.wait()
        if code not in world.good_codes(hosts):
            problems.append(f"exit code {code}:\n" + "\n".join(terminal.history()))
        if not seen:
            problems.append("no bar was seen")
    claim(f"{hosts} hosts, {width} columns: the bar is one line while it records, and none after", problems)


def check_summary(world, hosts, width):
    with Terminal(world.fleet, width, world.record("--duration", "1s")) as terminal:
        code = terminal.wait()
        lines = terminal.history()
    problems = []
    if code not in world.good_codes(hosts) or not any(re.search(rf"\b{hosts} of {hosts} (hosts|complete)\b", line) for line in lines):
        problems.append(f"exit code {code}\n" + "\n".join(lines[-20:]))
    claim(f"{hosts} hosts, {width} columns: the end says {hosts} of {hosts} complete", problems)


def check_hosts(world, hosts, width):
    """Rows of the table are rows of the terminal, and its last says how many there are."""
    with Terminal(world.fleet, width, world.fleet.operator("hosts"), height=max(24, hosts + 10)) as terminal:
        terminal.wait()
        whole = terminal.history()
    table = [line for line in whole if re.match(r"NAME|h\d+ ", line)]
    problems = [f"{len(line)} columns: {line}" for line in table if len(line) > width]
    named = {line.split()[0] for line in table}
    missing = [f"h{i}" for i in range(hosts) if f"h{i}" not in named]
    if missing:
        problems.append(f"not named: {missing[:5]} in\n" + "\n".join(whole[:10]))
    if hosts > 1 and not any(re.search(rf"\b{hosts} hosts?\b", line) for line in whole):
        problems.append("no line counts them:\n" + "\n".join(whole[-3:]))
    claim(f"{hosts} hosts, {width} columns: `hosts` has a row for each, none wraps, one counts them", problems)


def check_resized(world, hosts):
    """A terminal that becomes narrower may break the line that is there; what is drawn then adds no line."""
    problems = []
    with Terminal(world.fleet, 200, world.record("--duration", "4s")) as terminal:
        wait_until(lambda: bars_of(terminal.screen()) or terminal.has_ended(), "no bar")
        for width in (60, 200, 40, 120, 60):
            terminal.resize(width)
            time.sleep(0.3)
            before = terminal.screen()
            time.sleep(0.4)
            after = terminal.screen()
            if len(after) > len(before) and not terminal.has_ended():
                problems.append(f"{width} columns:\n" + "\n".join(before + ["then"] + after))
        terminal.wait()
    claim(f"{hosts} hosts: the bar follows a terminal that is resized", problems)


def check_interrupt(world, hosts):
    """Ctrl-C while it records: stops, reads, and says what it has."""
    with Terminal(world.fleet, 80, world.record()) as terminal:
        wait_until(lambda: bars_of(terminal.screen()) or terminal.has_ended(), "no bar")
        terminal.press("C-c")
        code = terminal.wait()
        lines = terminal.history()
    problems = [] if code in world.good_codes(hosts) and world.out.stat().st_size > 0 else [f"exit code {code}\n" + "\n".join(lines)]
    claim(f"{hosts} hosts: Ctrl-C in a terminal stops, reads and writes the file", problems)


def check_missing(world, hosts, gone):
    """Some are away: the end counts the others and names these."""
    code, lines = 0, []
    with Terminal(world.fleet, 80, world.record("--duration", "1s"), height=50) as terminal:
        code = terminal.wait()
        lines = terminal.history()
    text = "\n".join(lines)
    problems = []
    if code == 0 or not re.search(rf"\b{hosts - len(gone)} of {hosts} (hosts )?complete", text):
        problems.append(f"exit code {code}\n{text}")
    problems += [f"{name} is not named\n{text}" for name in gone if not re.search(rf"\b{name}\b", text)]
    claim(f"{len(gone)} of {hosts} hosts away: the end counts the others and names them", problems)


def watch(world, width, height=24):
    """`hosts --watch` in a terminal that shows something before."""
    return Terminal(world.fleet, width, ["sh", "-c", 'echo before; exec "$@"', "sh", *world.fleet.operator("hosts", "--watch")], height)


def wrong_with(terminal, hosts, width, height):
    """Of a screen of `hosts --watch` when all is well: None, or what is wrong with it."""
    lines = terminal.unwrapped()
    if len(lines) > height or any(len(line) > width for line in lines):
        return "a line too many, or too wide:\n" + "\n".join(lines)
    rows = [line for line in lines if re.match(r"h\d+ .* up ", line)]
    rest = re.match(r"(\d+) rows not shown; ", lines[-1]) if lines else None
    if not rows or len(rows) + int(rest[1] if rest else 0) != hosts or (hosts + 3 > height) != bool(rest):
        return f"{len(rows)} rows of {hosts}:\n" + "\n".join(lines)
    return None


def settle(terminal, claim_of, limit_s=120):
    """Waits until there is nothing wrong, and gives what still is after the limit."""
    end = time.monotonic() + limit_s
    while True:
        problem = claim_of()
        if problem is None or terminal.has_ended() or time.monotonic() > end:
            return problem
        time.sleep(0.1)


def check_watch(world, hosts):
    """The screen has as many lines as the terminal, whose size changes; the relay sees one and the same operator."""
    problems = []
    with watch(world, 60) as terminal:
        for width, height in ((60, 24), (200, 50), (80, 10), (60, 24)):
            terminal.resize(width, height)
            problem = settle(terminal, lambda w=width, h=height: wrong_with(terminal, hosts, w, h))
            problems += [f"{width} x {height}: {problem}"] if problem else []
        claim(f"{hosts} hosts: `hosts --watch` shows what the terminal has room for, and counts the rest", problems)
        before = {what: world.count(f"perfleet_relay_{what}_total") for what in ("connections", "streams")}
        carried = 'perfleet_relay_stream_bytes_total{direction="to_operator"}'
        rounds, seen, grows, problems = 0, world.count(carried), False, []
        while rounds < 4 and not terminal.has_ended():
            problems += [f"{len(line)} columns: {line}" for line in terminal.unwrapped() if len(line) > 60]
            now = world.count(carried)
            rounds += now > seen and not grows
            grows, seen = now > seen, now
            time.sleep(0.1)
        problems += filter(None, [settle(terminal, lambda: wrong_with(terminal, hosts, 60, 24))])
        for what, count in before.items():
            more = world.count(f"perfleet_relay_{what}_total") - count
            problems += [f"{more} more {what}"] if more else []
        problems += [f"it has ended:\n{terminal.history()}"] if terminal.has_ended() else []
        claim(f"{hosts} hosts: many rounds come over the same connections and streams, and no line wraps at 60 columns", problems)
        check_left(terminal, hosts)


def check_left(terminal, hosts):
    during = terminal.modes()
    terminal.press("C-c")
    code = terminal.wait()
    after, lines = terminal.modes(), terminal.screen()
    problems = [] if (code, during, after, lines[:1]) == (0, "1 0", "0 1", ["before"]) else [f"{code}, {during}, {after}, {lines}"]
    claim(f"{hosts} hosts: Ctrl-C ends `hosts --watch` with 0, and gives the terminal back", problems)


def check_away(world, hosts):
    """The relay goes away and comes back."""
    def shows(*regexes):
        lines = terminal.unwrapped()
        good = all(any(re.search(regex, line) for line in lines) for regex in regexes) and not any(len(line) > 60 for line in lines)
        return None if good else "\n".join(lines)
    with watch(world, 60) as terminal:
        problem = settle(terminal, lambda: wrong_with(terminal, hosts, 60, 24))
        world.fleet.end("relay")
        problem = problem or settle(terminal, lambda: shows(r"^relay \S+ is away \([1-9]\d* s\), this was before", r"^h\d+ .* up "))
        claim(f"{hosts} hosts: `hosts --watch` says that the relay is away, above the last table", [problem] if problem else [])
        world.start_relay()
        world.wait_for(hosts)
        problem = settle(terminal, lambda: wrong_with(terminal, hosts, 60, 24) or shows(r"^NAME"))
        claim(f"{hosts} hosts: it goes on when the relay is back", [problem] if problem else [])
        check_left(terminal, hosts)


def check_problems_first(world, hosts, gone):
    def shows():
        lines = terminal.unwrapped()
        first = [line.split()[0] for line in lines[1:1 + len(gone)]]
        counted = lines and re.match(rf"\d+ rows not shown; {hosts - len(gone)} of {hosts} hosts up", lines[-1])
        return None if sorted(first) == sorted(gone) and counted else "\n".join(lines)
    with watch(world, 60) as terminal:
        problem = settle(terminal, shows)
        claim(f"{len(gone)} of {hosts} hosts away: `hosts --watch` shows them first", [problem] if problem else [])
        check_left(terminal, hosts)


def main():
    with Fleet(sys.argv[1]) as fleet:
        world = World(fleet)
        world.start_relay()
        total = 0
        for hosts in (1, 20, 500):
            while total < hosts:
                count = min(PER_PROCESS, hosts - total)
                last = world.start_agents(total, count)
                total += count
            world.wait_for(hosts)
            for width in WIDTHS:
                check_bar(world, hosts, width)
                check_hosts(world, hosts, width)
            check_summary(world, hosts, 80)
            check_resized(world, hosts)
            check_interrupt(world, hosts)
            check_watch(world, hosts)
            if hosts == 20:
                check_away(world, hosts)
        gone = [f"h{i}" for i in range(total, total + 2)]
        last = world.start_agents(total, 2)
        world.wait_for(total + 2)
        fleet.end(last)
        wait_until(lambda: world.connected() == total, "they do not leave", 60)
        check_missing(world, total + 2, gone)
        check_problems_first(world, total + 2, gone)


if __name__ == "__main__":
    main()
