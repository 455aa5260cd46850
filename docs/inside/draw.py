#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/inside/*.svg: what is inside each program, all in one manner.

Usage: draw.py | draw.py --check

A picture is a table: boxes on a grid, and arrows between them. A box is (name, column, row, rows,
kind, lines); the name of a "room" is a folder of the program. --check fails if a picture is not
what its table says, if a room is no folder, and if a folder of the program is in no picture.
"""
import html
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BOX_W, BOX_H, GAP_X, GAP_Y, EDGE = 176, 64, 46, 16, 12
STYLE = """
text { font-family: sans-serif; fill: #30363d }
.name { font-size: 14px; font-weight: bold }
.line { font-size: 11px; fill: #4a525a }
.room { fill: #dcebff; stroke: #1f5fae }
.file { fill: #ffffff; stroke: #1f5fae }
.outside { fill: #f4f6f8; stroke: #8a949e; stroke-dasharray: 4 3 }
.arrow { stroke: #30363d; fill: none; marker-end: url(#a) }
"""
MARKER = ('<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
          'orient="auto"><path d="M0 0 8 4 0 8z" fill="#30363d"/></marker>')

# program: (folder, folders that are no rooms, boxes, arrows)
PICTURES = {
    "service": ("service", [], [
        ("producers", 0, 0, 1, "outside", ["shared memory, socket"]),
        ("consumers", 0, 1, 1, "outside", ["perfleet, agent, perfetto"]),
        ("files", 0, 2, 1, "outside", ["write_into_file"]),
        ("memory", 0, 3, 1, "outside", ["shared with ordinary", "users' producers"]),
        ("copy", 1, 3, 1, "room", ["a process of each user", "reads its memory"]),
        ("port", 1, 0, 3, "room", ["sockets, files, workers;", "the only user of libuv"]),
        ("control", 2, 0, 1, "room", ["who comes, registers,", "commits; queries"]),
        ("session", 2, 1, 2, "room", ["start, flush, read,", "files, rotation,",
                                      "triggers, clones"]),
        ("core", 3, 0, 2, "room", ["service, producers,", "consumers, sessions:", "their state"]),
        ("plan", 3, 2, 1, "room", ["what a config", "asks for"]),
        ("buffer", 4, 0, 1, "room", ["chunks, ring, sequences,", "packets, frames"]),
        ("output", 4, 1, 1, "room", ["trace filter,", "compression"]),
        ("vm", 4, 2, 1, "room", ["programs over what", "a ring overwrites"]),
    ], [("producers", "port"), ("consumers", "port"), ("port", "files"), ("copy", "memory"), ("port", "copy"), ("port", "control"),
        ("port", "session"), ("control", "core"), ("session", "core"), ("session", "plan"),
        ("core", "buffer"), ("core", "output"), ("plan", "output")]),
    "relay": ("relay", [], [
        ("operators", 0, 0, 1, "outside", ["perfleet record, ..."]),
        ("agents", 0, 1, 1, "outside", ["one for each host"]),
        ("new hosts", 0, 2, 1, "outside", ["perfleet-agent join"]),
        ("accept", 1, 0, 3, "room", ["TLS, revocation,", "identity, kind by ALPN;", "join port"]),
        ("hub", 2, 0, 2, "room", ["tables of peers and streams,", "requests, list of hosts,", "events, triggers"]),
        ("direct", 2, 2, 1, "room", ["one host's socket,", "without HTTP/2"]),
        ("policy", 3, 0, 2, "room", ["rules, roles, quotas,", "audit log"]),
        ("perfleetd", 3, 2, 1, "outside", ["of the relay's host"]),
    ], [("operators", "accept"), ("agents", "accept"), ("new hosts", "accept"),
        ("accept", "hub"), ("accept", "direct"), ("hub", "policy"), ("direct", "perfleetd"),
        ("direct", "policy")]),
    "agent": ("agent/daemon", [], [
        ("relays", 0, 0, 2, "outside", ["the agent dials them"]),
        ("join port", 0, 2, 1, "outside", ["of a relay"]),
        ("port", 1, 0, 2, "file", ["connections to relays,", "requests, metrics,",
                                   "what the host says"]),
        ("join", 1, 2, 1, "room", ["token, certificate,", "settings"]),
        ("stream", 2, 0, 1, "room", ["gate, zstd, spool,", "restart"]),
        ("alarm", 2, 1, 1, "room", ["waits for triggers,", "copies a session"]),
        ("events", 2, 2, 1, "room", ["what happens here,", "for relays"]),
        ("collect", 1, 3, 1, "room", ["collectors' streams"]),
        ("segment", 2, 3, 1, "room", ["segments that wait", "for a collector"]),
        ("order", 2, 4, 1, "room", ["orders of this host,", "their sessions"]),
        ("perfleetd", 3, 0, 2, "outside", ["consumer socket"]),
        ("service manager", 3, 2, 1, "outside", ["systemd, perfleet-keep:", "keeps descriptors"]),
        ("segments' folder", 3, 3, 1, "outside", ["perfleetd writes there"]),
    ], [("port", "relays"), ("join", "join port"), ("port", "stream"), ("port", "alarm"),
        ("port", "events"), ("collect", "segment"), ("collect", "order"), ("port", "collect"), ("segment", "segments' folder"),
        ("stream", "perfleetd"), ("alarm", "perfleetd"), ("stream", "service manager")]),
    "collector": ("collector", [], [
        ("relays", 0, 0, 4, "outside", ["the collector dials", "them; hosts and operators", "are behind them"]),
        ("relay", 1, 0, 4, "room", ["lists of spools;", "streams to hosts'", "spools"]),
        ("serve", 2, 0, 1, "room", ["requests of operators,", "within their rules"]),
        ("order", 2, 1, 1, "room", ["orders that hosts", "should have"]),
        ("pull", 2, 2, 1, "room", ["which host is visited,", "what a visit does"]),
        ("retain", 2, 3, 1, "room", ["what is removed, and", "when; the sweeps"]),
        ("engines", 3, 0, 3, "room", ["store and index, each", "with the threads of", "its blocking calls"]),
        ("describe", 3, 3, 1, "room", ["the JSON beside", "each object"]),
        ("store", 4, 0, 1, "room", ["objects of bytes", "under keys"]),
        ("index", 4, 1, 1, "room", ["what is in the store,", "orders, what hosts have"]),
        ("folder, S3", 5, 0, 1, "outside", ["segments, and JSON"]),
        ("SQLite, PostgreSQL", 5, 1, 1, "outside", ["the same statements"]),
    ], [("relay", "relays"), ("serve", "relay"), ("order", "relay"), ("pull", "relay"),
        ("serve", "engines"), ("order", "engines"), ("pull", "engines"), ("retain", "describe"),
        ("retain", "engines"), ("engines", "store"), ("engines", "index"),
        ("store", "folder, S3"), ("index", "SQLite, PostgreSQL")]),
    "operator": ("consumer", [], [
        ("operator", 0, 0, 2, "outside", ["perfleet COMMAND"]),
        ("Perfetto's tools", 0, 2, 1, "outside", ["local socket"]),
        ("Perfetto UI", 0, 3, 1, "outside", ["WebSocket"]),
        ("cmd", 1, 0, 2, "room", ["commands, options,", "completion, progress"]),
        ("proxy", 1, 2, 1, "room", ["one host's consumer", "socket, here"]),
        ("ui", 1, 3, 1, "room", ["all hosts as one", "consumer port"]),
        ("browser", 0, 4, 2, "outside", ["on 127.0.0.1"]),
        ("web", 1, 4, 1, "room", ["pages"]),
        ("open", 1, 5, 1, "room", ["traces for the", "Perfetto UI"]),
        ("http", 2, 5, 1, "room", ["requests, forms,", "answers"]),
        ("config", 2, 0, 1, "room", ["trace configs, presets,", "settings"]),
        ("recording", 2, 1, 1, "room", ["coordinates hosts,", "writes the file"]),
        ("host", 2, 2, 2, "room", ["addresses, connections,", "a host's part in", "a recording"]),
        ("report", 3, 0, 1, "room", ["summaries, tables,", "JSON"]),
        ("merge", 3, 1, 1, "room", ["packets of many hosts:", "one trace"]),
        ("clock", 3, 2, 1, "room", ["exchanges; offset", "and drift"]),
        ("hosts", 3, 3, 1, "outside", ["TLS, relay, ssh, UNIX"]),
        ("collector", 2, 4, 1, "room", ["segments of a collector:", "one trace"]),
        ("ask", 1, 4, 1, "room", ["questions to traces,", "answers"]),
        ("Trace Processor", 0, 4, 1, "outside", ["in a sandbox"]),
    ], [("operator", "cmd"), ("Perfetto's tools", "proxy"), ("Perfetto UI", "ui"),
        ("browser", "web"), ("web", "http"), ("browser", "open"), ("open", "http"), ("cmd", "config"), ("cmd", "recording"), ("recording", "merge"),
        ("recording", "host"), ("proxy", "host"), ("ui", "host"), ("host", "clock"),
        ("host", "hosts"), ("cmd", "collector"), ("collector", "merge"),
        ("ask", "Trace Processor")]),
    "library": ("producer", ["example", "trigger"], [
        ("your program", 0, 0, 2, "outside", ["perfleet.h,", "perfleet_track_event.h"]),
        ("track_event", 1, 0, 1, "room", ["categories, tracks,", "interning"]),
        ("data_source", 1, 1, 1, "room", ["instances, setup,", "writers of threads"]),
        ("shared_memory", 2, 0, 1, "room", ["writers, chunks,", "packets"]),
        ("ipc", 2, 1, 1, "room", ["connection, requests,", "commands, commits"]),
        ("perfleetd, traced", 3, 0, 2, "outside", ["producer socket"]),
        ("platform", 2, 2, 1, "room", ["clock, reentrancy,", "fork, heap"]),
    ], [("your program", "track_event"), ("your program", "data_source"),
        ("track_event", "data_source"), ("track_event", "shared_memory"),
        ("data_source", "ipc"), ("shared_memory", "ipc"), ("shared_memory", "perfleetd, traced"),
        ("ipc", "perfleetd, traced")]),
    "probes": ("agent/probes", [], [
        ("the kernel", 0, 0, 2, "outside", ["ftrace, in tracefs"]),
        ("/proc, /sys", 0, 2, 1, "outside", ["processes, counters"]),
        ("tracefs", 1, 0, 1, "room", ["instances, buffers;", "puts settings back"]),
        ("kernel_events", 1, 1, 1, "room", ["formats, filters, pages", "into bundles"]),
        ("procfs", 1, 2, 1, "room", ["process trees,", "system statistics"]),
        ("ftrace", 2, 0, 2, "room", ["sessions that share", "instances; packets"]),
        ("probes", 2, 2, 1, "file", ["instances of data sources,", "one loop of poll"]),
        ("libperfleet", 3, 0, 3, "outside", ["to the host's service"]),
    ], [("the kernel", "tracefs"), ("/proc, /sys", "procfs"), ("tracefs", "ftrace"),
        ("kernel_events", "ftrace"), ("ftrace", "probes"), ("procfs", "probes"),
        ("probes", "libperfleet")]),
}


class Box:
    def __init__(self, row):
        self.name, column, line, rows, self.kind, self.lines = row
        self.x = EDGE + column * (BOX_W + GAP_X)
        self.y = EDGE + line * (BOX_H + GAP_Y)
        self.h = rows * BOX_H + (rows - 1) * GAP_Y
        self.right, self.bottom = self.x + BOX_W, self.y + self.h

    def svg(self):
        middle, text = self.x + BOX_W / 2, []
        y = self.y + self.h / 2 - 7 * len(self.lines) + 5
        for i, line in enumerate([self.name] + self.lines):
            kind = "line" if i else "name"
            text.append(f'<text class="{kind}" x="{middle:g}" y="{y:g}" text-anchor="middle">'
                        f'{html.escape(line)}</text>')
            y += 15
        return (f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{BOX_W}" '
                f'height="{self.h}" rx="5"/>' + "".join(text))


def arrow(a, b):
    """Down or up within a column, else to the side; where both boxes reach, straight."""
    if a.x == b.x:
        x = a.x + BOX_W / 2
        ends = (a.bottom, b.y) if b.y > a.y else (a.y, b.bottom)
        return f'<path class="arrow" d="M{x:g} {ends[0]}V{ends[1]}"/>'
    begin, end = (a.right, b.x) if b.x > a.x else (a.x, b.right)
    low, high = max(a.y, b.y), min(a.bottom, b.bottom)
    if low < high:
        return f'<path class="arrow" d="M{begin} {(low + high) / 2:g}H{end}"/>'
    turn = (end - 16) if b.x > a.x else (end + 16)
    start = a.y + 14 if b.y < a.y else a.bottom - 14
    stop = b.bottom - 14 if b.y < a.y else b.y + 14
    return f'<path class="arrow" d="M{begin} {start}H{turn}V{stop}H{end}"/>'


def svg(program, boxes, arrows):
    named = {row[0]: Box(row) for row in boxes}
    width = max(b.right for b in named.values()) + EDGE
    height = max(b.bottom for b in named.values()) + EDGE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
           f'<title>{program}</title><style>{STYLE}</style><defs>{MARKER}</defs>',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    out += [arrow(named[a], named[b]) for a, b in arrows]
    out += [b.svg() for b in named.values()]
    return "\n".join(out) + "\n</svg>\n"


def problems_of(program):
    folder, ignored, boxes, arrows = PICTURES[program]
    path = os.path.join(HERE, program + ".svg")
    rooms = {row[0] for row in boxes if row[4] == "room"}
    there = {name for name in os.listdir(os.path.join(ROOT, folder))
             if os.path.isdir(os.path.join(ROOT, folder, name))} - set(ignored)
    yield from (f"{folder}/{name} is in no picture" for name in sorted(there - rooms))
    yield from (f"{program}: there is no folder {folder}/{name}" for name in sorted(rooms - there))
    if not os.path.exists(path) or read(path) != svg(program, boxes, arrows):
        yield f"docs/inside/{program}.svg is not what its table says: docs/inside/draw.py"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    if sys.argv[1:] == ["--check"]:
        problems = [p for program in PICTURES for p in problems_of(program)]
        print("\n".join(problems + [f"inside: {len(PICTURES)} pictures, {len(problems)} problems"]))
        return 1 if problems else 0
    for program, (_, _, boxes, arrows) in PICTURES.items():
        with open(os.path.join(HERE, program + ".svg"), "w", encoding="utf-8") as f:
            f.write(svg(program, boxes, arrows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
