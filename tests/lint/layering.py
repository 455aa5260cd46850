#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (docs/architecture.md): fails on every #include that the table forbids, and
on a call from a folder to one above it.

A folder's line names the project folders and the libraries its files may include besides their
own folder and libc. `--self-test` proves that a forbidden include is found.
"""
import os
import re
import sys

import csource
import structure
import tags

# The longest matching folder decides. "fields" are the numbers' names alone, generated from proto/. Programs never name another program's folder.
ALLOWED = {
    "abi": ((), ()),
    "base": ((), ()),
    "base/io": (("base",), ("uv", "mbedtls", "openssl")),
    "base/sandbox": (("base",), ("seccomp",)),
    "proto": (("base",), ("protobuf-c", "nghttp2", "libdeflate", "zstd")),
    "settings": (("base", "proto"), ("protobuf-c",)),
    "producer": (("abi", "base", "fields"), ()),
    "service": (("abi", "proto", "settings", "base", "base/io", "base/sandbox"),
                ("uv", "protobuf-c", "pcre2", "libdeflate", "zstd")),
    "tunnel": (("proto", "base", "base/io"), ("uv",)),
    "relay": (("tunnel", "proto", "settings", "base", "base/io", "base/sandbox"), ("uv", "jansson")),
    "agent/daemon": (("tunnel", "proto", "settings", "base", "base/io", "base/sandbox"), ("uv", "jansson")),
    "agent/supervisor": (("tunnel", "base", "base/sandbox"), ()),
    "agent/probes": (("producer", "base", "settings", "proto"), ()),
    "consumer": (("tunnel", "proto", "settings", "base", "base/io", "base/sandbox"),
                 ("uv", "protobuf-c", "jansson", "websockets", "sqlite3")),
    "collector": (("tunnel", "proto", "settings", "base", "base/io", "base/sandbox"),
                  ("uv", "protobuf-c", "jansson", "sqlite3", "curl", "libpq")),
    "tests": (("abi", "base", "base/io", "base/sandbox", "proto", "settings", "producer", "service", "tunnel", "relay", "agent/daemon",
               "agent/supervisor", "agent/probes", "consumer", "collector"), ("uv", "mbedtls", "protobuf-c", "jansson", "cmocka", "zlib",
               "zstd", "sqlite3", "curl", "libpq")),
}

# Files of base that the layers below may not have: pure folders return errors and get the time
# as an argument; the producer library has threads, and base/mem counts without locks.
FORBIDDEN_FILES = {
    "proto": {"base/log.h", "base/clock.h"},
    "producer": {"base/mem.h", "base/buf.h", "base/log.h"},
}

# Headers that are installed side by side name each other as programs outside do.
INSTALLED = {"producer/perfleet_track_event.h": {"perfleet.h"},
             "producer/perfleet.h": {"perfleet_packet.h"}}

# In the programs only shells see libuv and base/io (docs/style.md section 1); the rest is cores.
SHELLS = {
    "service": re.compile(r"(port/\w+|copy/copier_parent|daemon|main)\.[ch]$"),
    "tunnel": re.compile(r"(link|dialer|\w*port|service_watch|service_conn|client\w*)\.[ch]$"),
    "relay": re.compile(r"((accept|hub|policy|direct)/)?(\w*port|tls_port_impl|sandbox|direct_proxy|daemon|main)\.[ch]$"),
    "agent/daemon": re.compile(r"((alarm|collect|events|join|order|segment|stream)/)?(\w*port|port_impl|segments_impl|sandbox|daemon|main)\.[ch]$"),
    "collector": re.compile(r"((store|index)/\w+|(\w+/)?\w*port|sandbox|daemon|main)\.[ch]$"),
    "consumer": re.compile(r"(cmd/\w+|recording/\w+|proxy/(proxy\w*|file_pull)|ask/(\w+_port|answer_store)|ui/(ui_port|nested_loop|fleet_(client|impl|port|run))|http/http_port|open/\w+_port|web/(\w+/)?(\w+_(port|visit|part)|host_question|web_(answer|conf|impl|routes))|collector/collector_conn|host/(fan_out|\w+_conn|\w+_port|host_recording\w*))\.[ch]$"),
}

# The folders inside a folder, from the bottom up ("": its own files). A folder uses only those below it.
FLOORS = {
    "agent/daemon": ("events", "stream", "alarm", "segment", "order", "collect", "join", ""),
    "agent/probes": ("procfs", "tracefs", "kernel_events", "ftrace", ""),
    "collector": ("describe", "store", "index", "engines", "relay", "retain", "order", "pull", "serve", ""),
    "consumer": ("", "clock", "config", "merge", "collector", "ask", "host", "report", "recording", "proxy", "ui", "http", "open",
                 "web/html", "web/frame", "web/traces", "web/bigtrace", "web/hosts", "web/record", "web/running", "web/fleet", "web", "cmd"),
    "producer": ("", "platform", "shared_memory", "data_source", "ipc", "track_event", "example", "trigger"),
    "proto": ("", "text", "ipc", "gate", "h2", "tunnel", "order"),
    "relay": ("policy", "hub", "direct", "accept", ""),
    "service": ("vm", "buffer", "copy", "output", "plan", "core", "session", "control", "port", ""),
}

# The exceptions: (file, what it includes), with the reason.
UPWARD = set()
# Calls of a function that a lower header declares and a folder above has: (file, file), likewise.
UPWARD_CALLS = set()

LIBRARIES = [
    (re.compile(r"uv(\.h|/)"), "uv"),
    (re.compile(r"(mbedtls|psa)/"), "mbedtls"),
    (re.compile(r"protobuf-c/"), "protobuf-c"),
    (re.compile(r"nghttp2/"), "nghttp2"),
    (re.compile(r"zstd"), "zstd"),
    (re.compile(r"seccomp\.h"), "seccomp"),
    (re.compile(r"openssl/"), "openssl"),
    (re.compile(r"zlib\.h"), "zlib"),
    (re.compile(r"libdeflate\.h"), "libdeflate"),
    (re.compile(r"pcre2\.h"), "pcre2"),
    (re.compile(r"jansson\.h"), "jansson"),
    (re.compile(r"libwebsockets\.h"), "websockets"),
    (re.compile(r"cmocka\.h"), "cmocka"),
    (re.compile(r"sqlite3\.h"), "sqlite3"),
    (re.compile(r"curl/"), "curl"),
    (re.compile(r"libpq-fe\.h"), "libpq"),
]
LIBC = re.compile(
    r"((sys|linux|net|netinet|arpa|bits)/[a-z0-9_/]+|assert|complex|ctype|dirent|dlfcn|elf|endian|"
    r"errno|fcntl|fenv|float|fnmatch|ftw|getopt|glob|grp|ifaddrs|inttypes|iso646|libgen|limits|link|"
    r"locale|malloc|math|mntent|netdb|poll|pthread|pwd|regex|sched|semaphore|setjmp|signal|spawn|"
    r"emmintrin|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|"
    r"syslog|termios|threads|time|uchar|ucontext|unistd|utime|wchar|x86intrin|cpuid)\.h$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def folder_of(name):
    parts = name.split("/")
    for depth in (2, 1):
        folder = "/".join(parts[:depth])
        if len(parts) > depth and folder in ALLOWED:
            return folder
    return None


def judge_library(folder, target):
    for pattern, library in LIBRARIES:
        if pattern.match(target):
            return None if library in ALLOWED[folder][1] else f"may not use {library}"
    return None if LIBC.match(target) else "is no libc header and no known library"


def judge_project(folder, target):
    if target in FORBIDDEN_FILES.get(folder, ()):
        return "is not for this folder"
    other = "proto" if target.endswith((".pb-c.h", ".fields.h")) else folder_of(target)
    if target.endswith(".fields.h") and "fields" in ALLOWED[folder][0]:
        return None
    if other is None:
        return "is not named from the project's root"
    if other == folder or other in ALLOWED[folder][0]:
        return None
    return f"may not include {other}/"


def judge_core(folder, name, target):
    if folder not in SHELLS or SHELLS[folder].match(name[len(folder) + 1:]):
        return None
    if target.startswith(("base/io/", "base/sandbox/")) or target == "uv.h" or target.startswith("uv/"):
        return "is for shells, and this is a core"
    return None


def floor_of(folder, name):
    """The number of the floor that a file is on; None: on none that the table has."""
    inside = os.path.dirname(name[len(folder) + 1:])
    return FLOORS[folder].index(inside) if inside in FLOORS[folder] else None


def judge_floor(folder, name, target):
    if folder not in FLOORS or not target.startswith(folder + "/") or (name, target) in UPWARD:
        return None
    other = floor_of(folder, target)
    if other is None:
        return f"is in a folder of {folder}/ that has no floor in the table"
    return "stands above this folder" if other > floor_of(folder, name) else None


def judge_calls(graph, exceptions):
    """`graph`: file (without suffix) to the files whose functions it calls."""
    problems, unused = [], set(exceptions)
    for name, others in sorted(graph.items()):
        folder = folder_of(name)
        for other in sorted(others):
            if folder not in FLOORS or folder_of(other) != folder:
                continue
            if floor_of(folder, other) > floor_of(folder, name):
                unused.discard((name, other))
                if (name, other) not in exceptions:
                    problems.append(f"{name}.c: calls {other}.c, which stands above this folder")
    return problems + [f"{name}: the call of {other} needs no exception" for name, other in sorted(unused)]


def left_over():
    """Exceptions whose include is no longer there."""
    return [f"{name}: {target} needs no exception" for name, target in UPWARD
            if not os.path.exists(os.path.join(csource.ROOT, name)) or
            all(m.group(2) != target for m in INCLUDE.finditer(csource.comments_out(csource.read(name))))]


def check(name, text):
    folder = folder_of(name)
    if folder is None:
        return [f"{name}: C code in a folder that has no line in the table"]
    if folder in FLOORS and floor_of(folder, name) is None:
        return [f"{name}: C code in a folder of {folder}/ that has no floor in the table"]
    problems = []
    for match in INCLUDE.finditer(csource.comments_out(text)):
        kind, target = match.groups()
        if target in INSTALLED.get(name, ()):
            continue
        why = (judge_library if kind == "<" else judge_project)(folder, target)
        why = why or judge_core(folder, name, target) or judge_floor(folder, name, target)
        if why is not None:
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{name}:{line}: {folder}/: {target} {why}")
    return problems


def self_test():
    bad = [("proto/x.c", "#include <uv.h>"), ("base/x.c", "#include <seccomp.h>"), ("relay/x.c", "#include <sqlite3.h>"), ("consumer/x.c", "#include <libpq-fe.h>"),
           ("collector/store/x.c", '#include "collector/index/index.h"'), ("proto/x.c", "#include <curl/curl.h>"),
           ("service/session/x.c", '#include "base/sandbox/sandbox.h"'), ("relay/x.c", '#include "abi/page.h"'),
           ("consumer/x.c", '#include "service/core/session.h"'), ("base/x.c", "#include <mbedtls/ssl.h>"),
           ("base/io/x.c", '#include "proto/ipc/frame.h"'), ("proto/x.c", '#include "base/log.h"'),
           ("base/x.c", '#include "base/io/stream.h"'), ("abi/x.h", '#include "base/err.h"'),
           ("producer/x.c", '#include "base/mem.h"'), ("service/x.c", '#include "frame.h"'),
           ("abi/x.h", "#include <openssl/ssl.h>"), ("service/core/session.c", "#include <uv.h>"),
           ("consumer/merge/merge.c", '#include "base/io/stream.h"'), ("nowhere/x.c", "#include <stdio.h>"),
           ("relay/policy/x.c", '#include "relay/hub/hub_port.h"'), ("relay/hub/x.c", '#include "relay/daemon.h"'),
           ("relay/hub/x.c", '#include "relay/direct/direct_proxy.h"'), ("relay/direct/x.c", '#include "relay/accept/tls_port.h"'),
           ("proto/x.c", '#include "proto/h2/h2.h"'), ("proto/gate/x.c", '#include "proto/tunnel/identity.h"'),
           ("proto/nowhere/x.c", "#include <stdio.h>"), ("proto/x.c", '#include "proto/nowhere/x.h"'), ("relay/hub/stream_splice.c", "#include <uv.h>"),
           ("agent/daemon/stream/x.c", '#include "agent/daemon/port.h"'),
           ("agent/probes/procfs/x.c", '#include "agent/probes/tracefs/tracefs.h"'),
           ("agent/probes/ftrace/x.c", '#include "agent/probes/probes.h"'), ("agent/x.c", "#include <stdio.h>"),
           ("agent/daemon/x.c", '#include "agent/probes/probes.h"'),
           ("producer/platform/x.c", '#include "producer/ipc/connection.h"'),
           ("producer/ipc/x.c", '#include "producer/track_event/event_source.h"'),
           ("producer/ipc/x.c", '#include "perfetto/ipc.pb-c.h"'), ("abi/x.h", '#include "perfetto/ipc.fields.h"'),
           ("producer/nowhere/x.c", "#include <stdio.h>"), ("producer/ipc/deeper/x.c", "#include <stdio.h>"),
           ("consumer/host/x.c", '#include "consumer/report/host_table.h"'), ("consumer/x.c", '#include "consumer/host/fan_out.h"'),
           ("consumer/merge/x.c", '#include "consumer/host/losses.h"'), ("consumer/ui/x.c", '#include "consumer/cmd/cmd.h"')]
    good = [("collector/index/x.c", "#include <sqlite3.h>\n#include <libpq-fe.h>"), ("relay/x.c", '#include "relay/accept/tls_port.h"'), ("relay/direct/x.c", '#include "relay/policy/quota.h"'),
            ("relay/hub/hub_port.c", "#include <uv.h>"), ("proto/tunnel/x.c", '#include "proto/h2/h2.h"'),
            ("proto/x.c", '#include "base/bytes.h"\n#include <protobuf-c/protobuf-c.h>'),
            ("agent/daemon/x.c", '#include "agent/daemon/stream/stream_port.h"'),
            ("agent/probes/ftrace/x.c", '#include "agent/probes/procfs/probe_message.h"'),
            ("producer/ipc/x.c", '#include "perfetto/ipc.fields.h"'),
            ("producer/ipc/x.c", '#include "producer/perfleet.h"\n#include "producer/platform/heap.h"'),
            ("producer/perfleet_track_event.h", '#include "perfleet.h"'),
            ("abi/x.h", "#include <stdatomic.h>"), ("service/port/producer_port.c", "#include <uv.h>"), ("base/x.c", '/* #include <uv.h> */'),
            ("service/x.c", '#include "proto/config.pb-c.h"\n#include "abi/page.h"')]
    wrong = [n + " " + t for n, t in bad if not check(n, t)]
    wrong += [n + " " + t for n, t in good if check(n, t)]
    calls = {"consumer/host/x": {"consumer/report/y", "consumer/clock/y"}, "relay/x": {"consumer/cmd/y"}}
    upward = ("consumer/host/x", "consumer/report/y")
    wrong += ["calls"] if len(judge_calls(calls, set())) != 1 or judge_calls(calls, {upward}) else []
    wrong += ["a call that is gone"] if len(judge_calls({}, {upward})) != 1 else []
    for w in wrong:
        print(f"layering self-test: judged wrongly: {w}")
    print(f"layering self-test: {len(bad) + len(good) + 2} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = csource.files(".c", ".h")
    csource.finish("layering", [p for n in NAMES for p in check(n, csource.read(n))] + left_over() +
                   judge_calls(structure.call_graph(tags.product()), UPWARD_CALLS), len(NAMES))
