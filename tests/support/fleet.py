# SPDX-License-Identifier: Apache-2.0
"""A fleet of real processes on one machine, for the chaos test and the benchmarks: an authority, a
relay, and hosts, each a perfleetd with a perfleet-agent. Nothing here waits without a limit."""
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PKI = ROOT / "deploy" / "pki" / "perfleet-pki"
LIMIT_S = 60


def wait_until(claim, what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not claim():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def memory_kib(pid, key="VmRSS"):
    """Resident KiB now, or with VmHWM the most there ever was."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{key}:\s+(\d+)", text, re.M)[1])


def private_kib(pid):
    """What the process alone holds: the cost of one more of its kind."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Private_\w+:\s+(\d+)", text, re.M))


def cpu_seconds(pid):
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(f.read_text().split()[0]) for f in files) / 1e9


class Fleet:
    """Processes end with the `with` block; logs are in `dir`, NAME.log."""

    def __init__(self, build, keys=None):
        """`keys`: certificates of an earlier fleet, or where to leave ours."""
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.bins = {}  # of a host, "relay" or "operator": programs of another build, where that has them
        self.place = tempfile.TemporaryDirectory(prefix="pfl.", dir="/tmp")
        self.dir = pathlib.Path(self.place.name)
        self.keys = pathlib.Path(keys).resolve() if keys else self.dir / "pki"
        self.children = {}  # name: Popen
        self.is_ending = False
        if not (self.keys / "operator-me.pem").exists():
            self.pki("init", "--fleet", "test")
            self.pki("relay", "meet", "--ip", "127.0.0.1")
            self.pki("operator", "me")
        self.relay_address = None

    def pki(self, command, *args):
        subprocess.run([PKI, command, self.keys, *map(str, args)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def program(self, who, name):
        own = self.bins.get(who, self.bin) / name
        return own if own.exists() else self.bin / name

    def make_hosts(self, names):
        for name in names:
            if not (self.keys / f"host-{name}.pem").exists():
                self.pki("host", name)

    def tls(self, who):
        return ["--ca", self.keys / "ca.pem", "--cert", self.keys / f"{who}.pem", "--key",
                self.keys / f"{who}.key"]

    def start(self, name, command, env=None, **more):
        log = open(self.dir / f"{name}.log", "ab")
        child = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, env={**os.environ, **(env or {})}, **more)
        log.close()
        self.children[name] = child
        return child

    def log(self, name):
        path = self.dir / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def end(self, name, number=signal.SIGTERM):
        child = self.children.pop(name)
        child.send_signal(number)
        return child.wait(LIMIT_S)

    # ---- who is in it

    def start_relay(self, *options):
        """Always on the same port, which the kernel does not lend to whoever connects."""
        (self.dir / "relay.log").unlink(missing_ok=True)
        self.start("relay", [self.program("relay", "perfleet-relay"), "--listen",
                             (self.relay_address or f":{20000 + secrets.randbelow(12000)}").replace("127.0.0.1", "").replace(
                                 ":", "0.0.0.0:"), *self.tls("relay-meet"), *options])

        def is_listening():
            found = re.search(r"listening: .* port=(\d+)", self.log("relay"))
            if found:
                self.relay_address = f"127.0.0.1:{found[1]}"
            return found
        wait_until(is_listening, "the relay does not listen")

    def sockets(self, host):
        where = self.dir / host
        return {"PERFETTO_PRODUCER_SOCK_NAME": str(where / "p"),
                "PERFETTO_CONSUMER_SOCK_NAME": str(where / "c")}

    def start_service(self, host, *options):
        (self.dir / host).mkdir()
        self.start(f"service-{host}", [self.program(host, "perfleetd"), *options], env=self.sockets(host))
        wait_until((self.dir / host / "c").is_socket, f"no service at {host}")

    def start_agent(self, host, relay=None, *options, is_kept=False):
        """Kept: its streams survive it, and it is started again when it dies."""
        keep = [self.bin / "perfleet-keep", "--restart-max-ms", "100", "--"] if is_kept else []
        self.start(f"agent-{host}", [*keep, self.program(host, "perfleet-agent"), "--relay",
                                     relay or self.relay_address, *self.tls(f"host-{host}"),
                                     "--consumer-socket", self.dir / host / "c", *options],
                   {"RUNTIME_DIRECTORY": str(self.dir / host)} if is_kept else None)

    def kept_agent(self, host):
        """The id of the process that is kept; None: there is none at the moment."""
        keeper = self.children[f"agent-{host}"].pid
        children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        return int(children[0]) if children else None

    def operator(self, command, *args, relay=None):
        """The command line of an operator."""
        return [str(c) for c in (self.program("operator", "perfleet"), command, "--relay",
                                 relay or self.relay_address, *self.tls("operator-me"), *args)]

    def ask(self, command, *args, **more):
        return subprocess.run(self.operator(command, *args, **more), capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)

    # ---- the end

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.is_ending = True
        for child in self.children.values():
            child.terminate()
        for child in self.children.values():
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if kind is not None:
            for path in sorted(self.dir.glob("*.log")):
                for line in path.read_text(errors="replace").splitlines()[-3:]:
                    if not line.startswith("info"):
                        print(f"# {path.name}: {line}", flush=True)
        self.place.cleanup()
