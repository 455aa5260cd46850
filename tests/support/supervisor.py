#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service manager for one program, as systemd is one: readiness, watchdog, sockets.

    supervisor.py [--watchdog-ms N] [--abstract] [--listen NAME=ADDRESS]... STEPS -- PROGRAM ARG...

STEPS, with commas, are what must happen, in this order, or the exit code is 1:
    ready            READY=1 comes
    alive            three signs of life come, each before the watchdog is twice as late as it may be (or half a
                     minute: a machine may stand still, too)
    reload           SIGHUP is answered with RELOADING=1 and READY=1
    silent           no sign of life comes in one second and a half
    hang             SIGSTOP ends the signs of life: the program is killed, as a manager would
    restart          it is started again with the same sockets
    connect          each of the sockets takes a connection
    wait             it runs until SIGTERM, or 120 s
    stop             SIGTERM is answered with STOPPING=1, and it exits with 0
ADDRESS is a path, or HOST:PORT; port 0 is any.
"""
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60


class Manager:
    def __init__(self, program, listen=(), watchdog_ms=0, abstract=False, env=None, log=None):
        """`env`: what the program's environment has besides; `log`: the file that its output is added to."""
        self.env, self.log = env or {}, log
        self.program, self.watchdog_s = program, watchdog_ms / 1000
        self.folder = tempfile.mkdtemp(prefix="pfl-notify.")
        name = "@pfl-notify-%d" % os.getpid() if abstract else os.path.join(self.folder, "notify")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind("\0" + name[1:] if abstract else name)
        self.name, self.process, self.states = name, None, []
        self.names, self.sockets = [], []
        for one in listen:
            label, address = one.split("=", 1)
            if address.startswith("/"):
                sock = socket.socket(socket.AF_UNIX)
                sock.bind(address)
            else:
                host, port = address.rsplit(":", 1)
                sock = socket.create_server((host, int(port)))
            sock.listen()
            self.names.append(label)
            self.sockets.append(sock)

    def start(self):
        env = dict(os.environ, **self.env, NOTIFY_SOCKET=self.name)
        env.pop("LISTEN_FDS", None)
        count = len(self.sockets)
        fds = [os.dup(s.fileno()) for s in self.sockets]

        def prepare():
            moved = [os.dup2(os.dup(fd), 100 + i) for i, fd in enumerate(fds)]
            for i, fd in enumerate(moved):
                os.dup2(fd, 3 + i, inheritable=True)
            os.environ.update(env)
            if self.log:
                log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(log, 1)
                os.dup2(log, 2)
            if count:
                os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count),
                                  LISTEN_FDNAMES=":".join(self.names))
            if self.watchdog_s:
                os.environ.update(WATCHDOG_PID=str(os.getpid()),
                                  WATCHDOG_USEC=str(int(self.watchdog_s * 1e6)))
            os.execvp(self.program[0], self.program)

        pid = os.fork()
        if pid == 0:
            prepare()
        self.process = pid
        for fd in fds:
            os.close(fd)

    def receive(self, timeout_s):
        """The next line of a message, or None."""
        end = time.monotonic() + timeout_s
        while not self.states:
            left = max(0, min(0.1, end - time.monotonic()))
            if not select.select([self.notify], [], [], left)[0]:
                if time.monotonic() >= end or self.has_ended():
                    return None
                continue
            self.states += self.notify.recv(4096).decode().split("\n")
        return self.states.pop(0)

    def has_ended(self):
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def expect(self, state):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            got = self.receive(end - time.monotonic())
            if got == state:
                return True
            if got is None:
                break
        return False

    def ready(self):
        return self.expect("READY=1")

    def alive(self):
        for _ in range(3):
            if self.receive(max(2 * self.watchdog_s, PATIENCE_S / 2)) != "WATCHDOG=1":
                return False
        return True

    def silent(self):
        return self.receive(1.5) is None and not self.has_ended()

    def reload(self):
        os.kill(self.process, signal.SIGHUP)
        return self.expect("RELOADING=1") and self.expect("READY=1")

    def hang(self):
        os.kill(self.process, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process, os.WSTOPPED | os.WNOWAIT)
        while self.receive(0) is not None:
            pass
        silent = self.receive(2 * self.watchdog_s) is None
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        return silent

    def restart(self):
        self.start()
        return self.ready()

    def kill(self):
        """SIGKILL, and what the dead one still had to say is forgotten."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        while self.receive(0) is not None:
            pass

    def connect(self):
        for sock in self.sockets:
            client = socket.socket(sock.family)
            client.settimeout(PATIENCE_S)
            client.connect(sock.getsockname())
            client.close()
        return True

    def wait(self):
        end = time.monotonic() + 120
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        while time.monotonic() < end and not self.has_ended():
            self.receive(1)
        return not self.has_ended()

    def stop(self):
        os.kill(self.process, signal.SIGTERM)
        stopping = self.expect("STOPPING=1")
        _, status = os.waitpid(self.process, 0)
        self.process = None
        if status != 0:
            print(f"status {status}")
        return stopping and status == 0

    def clean(self):
        if self.process:
            try:
                os.kill(self.process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.call(["rm", "-rf", self.folder])


def main():
    args, listen, watchdog_ms, abstract = sys.argv[1:], [], 0, False
    while args[0].startswith("--"):
        option = args.pop(0)
        if option == "--abstract":
            abstract = True
        elif option == "--listen":
            listen.append(args.pop(0))
        else:
            watchdog_ms = int(args.pop(0))
    steps, program = args[0].split(","), args[2:]
    manager = Manager(program, listen, watchdog_ms, abstract)
    try:
        manager.start()
        for step in steps:
            if not getattr(manager, step)():
                print(f"{step}: did not happen; last states {manager.states}")
                return 1
    finally:
        manager.clean()
    return 0


if __name__ == "__main__":
    sys.exit(main())
