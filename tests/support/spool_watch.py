# SPDX-License-Identifier: Apache-2.0
"""What hosts say that they made: reads each note of a segment in their folders as soon as it is there (inotify), and
hashes the trace beside it, if the collector has not taken that already. A thread; shares no code with perfleet."""
import ctypes
import hashlib
import os
import re
import select
import struct
import threading

import trace_check

MOVED_TO = 0x80
NOTE = re.compile(r"(.+)\.(\d{6,})\.segment")
EVENT = struct.Struct("iIII")
BYTES, SHA256, GAP = 6, 7, 21


class SpoolWatch:
    """`noted`: (incarnation, number): SHA-256 in hex, None of a gap. `wrong`: notes that are not what their trace is.
    `late`: notes that were gone before they were read."""

    def __init__(self):
        self.noted, self.wrong, self.late, self.hashed = {}, [], 0, 0
        self.folders = {}
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_ending = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, folder):
        watch = self.libc.inotify_add_watch(self.fd, os.fsencode(folder), MOVED_TO)
        if watch < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        self.folders[watch] = folder

    def end(self):
        self.is_ending = True
        self.thread.join()
        os.close(self.fd)

    def run(self):
        while not self.is_ending:
            if select.select([self.fd], [], [], 0.2)[0]:
                self.take(os.read(self.fd, 1 << 16))

    def take(self, events):
        pos = 0
        while pos < len(events):
            watch, _, _, size = EVENT.unpack_from(events, pos)
            name = events[pos + EVENT.size:pos + EVENT.size + size].rstrip(b"\0").decode()
            pos += EVENT.size + size
            found = NOTE.fullmatch(name)
            if found and watch in self.folders:
                self.read(self.folders[watch], found[1], found[2])

    def read(self, folder, run, number):
        for end in ("segment", "released"):
            try:
                note = (folder / f"{run}.{number}.{end}").read_bytes()
                break
            except FileNotFoundError:
                pass
        else:
            self.late += 1
            return
        has = trace_check.message(note, (0, len(note)))
        key = run, int(number)
        if GAP in has or SHA256 not in has:
            self.noted.setdefault(key, None)
            return
        sha256 = note[slice(*has[SHA256])].hex()
        self.compare(folder / f"{run}.pftrace.{number}", key, sha256)
        if self.noted.setdefault(key, sha256) not in (sha256, None):
            self.wrong.append(f"{key}: two notes of other bytes")

    def compare(self, path, key, sha256):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        self.hashed += 1
        if hashlib.sha256(data).hexdigest() != sha256:
            self.wrong.append(f"{key}: the note has another SHA-256 than the trace")
