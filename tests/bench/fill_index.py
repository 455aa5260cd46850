# SPDX-License-Identifier: Apache-2.0
"""Fills a collector's index (SQLite, whose schema the collector made) with traces that nobody recorded, for tests/bench/page:
the page reads only the index.

Hosts h0, h1, ...: each a run of segments of 60 s, one after the other, such that the newest ends now and the oldest is
HOURS old; every host has 1 % with losses, 1 % of gaps, and 2 % that a trigger made. A tenth of the hosts is role=db.
"""
import sqlite3
import time

from hostile import field

NS_PER_S = 10**9
LABELS = ("role=web", "role=db")


def define(host, number, begin_ns, kind):
    """perfleet.Segment: proto/perfleet/segment.proto."""
    parts = [field(1, f"h{host}"), field(2, "me"), field(3, "cpu"), field(4, "01JD0000000000000000000009"), field(5, number),
             field(6, 0 if kind == "gap" else 1 << 20), field(11, begin_ns), field(12, begin_ns + 60 * NS_PER_S),
             field(15, LABELS[host % 10 == 0]), field(15, f"zone=z{host % 50}"), field(15, f"rack=r{host // 20}"),
             field(16, "linux.ftrace"), field(16, "track_event"), field(19, "perfleet 1.0"), field(20, "perfleet 1.0")]
    if kind == "gap":
        parts.append(field(21, field(1, number) + field(3, 1)))
    else:
        parts.append(field(7, bytes(32)))
    if kind == "lossy":
        parts.append(field(18, field(1, "buffer") + field(2, 7)))
    if kind == "trigger":
        parts.append(field(14, field(1, "slow-frame") + field(2, f"h{host}") + field(3, begin_ns)))
    return b"".join(parts)


def rows(hosts, each, hours, now_ns, runs):
    """In the order of their begin, as they come into an index."""
    step_ns = int(hours * 3600 * NS_PER_S) // each
    kinds = {13: "lossy", 37: "gap", 51: "trigger", 77: "trigger"}
    for number in range(1, each + 1):
        for host in range(hosts):
            kind = kinds.get((number + host) % 100, "plain")
            begin = now_ns - step_ns * (each - number + 1) - host * step_ns // hosts
            made = f"01{number:08d}{host:016d}"
            key = "" if kind == "gap" else f"v1/test/{made}.pftrace"
            yield (made, runs[host], runs[host], number, number, kind == "gap", 0, 1, begin, begin + 60 * NS_PER_S,
                   0 if kind == "gap" else 1 << 20, None if kind == "gap" else bytes(32), key,
                   define(host, number, begin, kind), "bench", 1, begin, begin, begin + 365 * 86400 * NS_PER_S,
                   "slow-frame" if kind == "trigger" else "")


def fill(path, traces, hosts, hours=24.0):
    db = sqlite3.connect(path)
    now_ns = time.time_ns()
    each = max(1, traces // hosts)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -1000000")
    db.execute("INSERT INTO kind(id, class, orderer, order_name) VALUES(2, 'default', 'me', 'cpu')")
    db.executemany("INSERT INTO host(id, name) VALUES(?, ?)", ((i + 1, f"h{i}") for i in range(hosts)))
    db.executemany("INSERT INTO run(id, host_id, orderer, order_name, incarnation, last, kind_id, changed_ns)"
                   " VALUES(?, ?, 'me', 'cpu', '01JD0000000000000000000009', ?, 2, ?)",
                   ((i + 1, i + 1, each, now_ns) for i in range(hosts)))
    runs = [i + 1 for i in range(hosts)]
    db.executemany("INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns, end_ns, bytes,"
                   " sha256, object_key, definition, collector, generation, changed_ns, stored_ns, keep_ns, trigger_name,"
                   f" kind_id) VALUES({', '.join('?' * 20)}, 2)", rows(hosts, each, hours, now_ns, runs))
    db.executescript(
        "UPDATE run SET stored = (SELECT COUNT(*) FROM segment WHERE run_id = run.id AND is_gap = 0), in_gaps ="
        " (SELECT COUNT(*) FROM segment WHERE run_id = run.id AND is_gap = 1), bytes = (SELECT SUM(8192 + bytes + 8 *"
        " LENGTH(definition)) FROM segment WHERE run_id = run.id); UPDATE host SET bytes = (SELECT SUM(bytes) FROM run WHERE"
        " host_id = host.id), gaps = (SELECT SUM(in_gaps) FROM run WHERE host_id = host.id);"
        "PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
