# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL of the test's own, on a socket in a folder of its own; as root it runs as the user postgres."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from fleet import wait_until


class Postgres:
    """`where` is what perfleet-collector's --index takes, None if it is not wanted; `is_there`: it is installed."""

    def __init__(self, is_wanted=True, options=()):
        bins = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        self.is_there = bool(bins)
        self.bin = bins[-1] if bins else None
        self.is_wanted, self.where, self.server, self.dir, self.who = is_wanted, None, None, None, {}
        self.options = options  # of the server

    def run(self, *words):
        return subprocess.run([self.bin / "psql", "-q", "-h", self.dir, "-U", "me", "-d", "postgres", "-c", *words],
                              capture_output=True, check=False).returncode == 0

    def rows(self, sql):
        """What a question answers, a line each."""
        done = subprocess.run([self.bin / "psql", "-X", "-A", "-t", "-q", "-h", self.dir, "-U", "me", "-d", "fleet", "-c", sql],
                              capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def launch(self):
        """Does not wait for it. Of one that was killed the other processes end by themselves; before that it ends at once."""
        self.server = subprocess.Popen([self.bin / "postgres", "-D", self.dir / "data", "-k", self.dir, "-h", "", *self.options],
                                       **self.who)

    def make_database(self, name):
        """An empty one: its `where`."""
        if not self.run(f"DROP DATABASE IF EXISTS {name}") or not self.run(f"CREATE DATABASE {name}"):
            raise RuntimeError("no database is made")
        return f"postgres:host={self.dir} user=me dbname={name}"

    def __enter__(self):
        if not self.is_wanted or not self.is_there:
            return self
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pfl.pg.", dir="/tmp"))
        self.dir.chmod(0o711)  # a collector connects again without the capabilities of root
        self.who = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.dir}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
            self.who |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        subprocess.run([self.bin / "initdb", "-D", self.dir / "data", "-A", "trust", "-U", "me", "-N"], check=True, **self.who)
        self.launch()
        wait_until(lambda: self.run("SELECT 1"), "no PostgreSQL")
        self.where = self.make_database("fleet")
        return self

    def __exit__(self, kind, value, trace):
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(60)
        if self.dir is not None:
            shutil.rmtree(self.dir, ignore_errors=True)
