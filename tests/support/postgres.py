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

    def __init__(self, is_wanted=True):
        bins = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        self.is_there = bool(bins)
        self.bin = bins[-1] if bins else None
        self.is_wanted, self.where, self.server, self.dir = is_wanted, None, None, None

    def run(self, *words):
        return subprocess.run([self.bin / "psql", "-q", "-h", self.dir, "-U", "me", "-d", "postgres", "-c", *words],
                              capture_output=True, check=False).returncode == 0

    def make_database(self, name):
        """An empty one: its `where`."""
        if not self.run(f"DROP DATABASE IF EXISTS {name}") or not self.run(f"CREATE DATABASE {name}"):
            raise RuntimeError("no database is made")
        return f"postgres:host={self.dir} user=me dbname={name}"

    def __enter__(self):
        if not self.is_wanted or not self.is_there:
            return self
        self.dir, who = pathlib.Path(tempfile.mkdtemp(prefix="pfl.pg.", dir="/tmp")), {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
            who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.dir}
        subprocess.run([self.bin / "initdb", "-D", self.dir / "data", "-A", "trust", "-U", "me", "-N"], check=True,
                       **quiet, **who)
        self.server = subprocess.Popen([self.bin / "postgres", "-D", self.dir / "data", "-k", self.dir, "-h", ""],
                                       **quiet, **who)
        wait_until(lambda: self.run("SELECT 1"), "no PostgreSQL")
        self.where = self.make_database("fleet")
        return self

    def __exit__(self, kind, value, trace):
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(60)
        if self.dir is not None:
            shutil.rmtree(self.dir, ignore_errors=True)
