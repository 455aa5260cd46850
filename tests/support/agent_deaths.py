#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents that are killed while they carry streams, under perfleet-keep, which has what their next
processes need: every byte arrives once, both ways; and what becomes of streams to which nobody comes
back, that are killed, or that another version left.

  agent_deaths.py BUILD

Prints lines of TAP without numbers. Stock programs take part where PERFETTO_BIN_DIR names them. A
process of an agent is killed when the one before has handed its streams over, and they are carried:
nothing here depends on how long that takes."""
import array
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import metrics_check  # noqa: E402
import slow_operator  # noqa: E402
from fleet import ROOT, Fleet, wait_until  # noqa: E402
from service_peers import Consumer, dict_of_lists, field, fields  # noqa: E402

MIB, DEATHS = 12, 20
COUNT = (MIB << 20) // 880
AT_ONCE = 12
VERSION_AT = 8  # in a stream's memory
EXPIRED = 'perfleet_losses_total{hop="tunnel",cause="stream_expired"}'
POLICY = """
rule { name: "gated" operator: "me" host: "gated" role: "some" }
rule { name: "me" operator: "me" host: "*" }
role { name: "some" data_source: "com.example.load" max_buffer_kb: 65536 }
"""
STOCK = "buffers { size_kb: 8192 } duration_ms: %d %s data_sources { config { name: \"com.example.load\" } }"


def claim(text, is_true, *why):
    print(f"{'ok' if is_true else 'not ok'} - {text}", flush=True)
    if not is_true:
        print(*(f"# {line}" for w in why for line in str(w).splitlines()[-20:]), sep="\n", flush=True)


class Store(threading.Thread):
    """A manager with a store that starts its program again however that ended, as systemd's restart does."""

    def __init__(self, folder, command, log):
        super().__init__(daemon=True)
        self.path, self.command, self.log = str(folder / "store"), [str(c) for c in command], log
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.settimeout(0.02)
        self.kept, self.is_over, self.child, self.starts = [], False, None, 0

    def receive(self):
        try:
            text, extra, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(4))
        except TimeoutError:
            return False
        said = dict(line.split("=", 1) for line in text.decode().splitlines())
        got = array.array("i", b"".join(data for _, _, data in extra))
        if said.get("FDSTORE") == "1":
            self.kept += [(said["FDNAME"], fd) for fd in got]
        elif said.get("FDSTOREREMOVE") == "1":
            for name, fd in [k for k in self.kept if k[0] == said["FDNAME"]]:
                os.close(fd)
                self.kept.remove((name, fd))
        return True

    def begin(self):
        kept = list(self.kept)
        # The shell has the number that it becomes the program with.
        words = 'export LISTEN_PID=$$; exec "$@"'

        def place():
            high = [os.dup2(fd, 500 + i) for i, (_, fd) in enumerate(kept)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
                os.close(fd)
        env = dict(os.environ, NOTIFY_SOCKET=self.path, FDSTORE="768", LISTEN_FDS=str(len(kept)),
                   LISTEN_FDNAMES=":".join(name for name, _ in kept))
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(["sh", "-c", words, "sh", *self.command], env=env, stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log, close_fds=False, preexec_fn=place)
        self.starts += 1

    def run(self):
        self.begin()
        while not self.is_over:
            self.receive()
            if self.child.poll() is not None:
                while self.receive():
                    pass
                self.begin()

    def stop(self):
        self.is_over = True
        self.join()
        self.child.terminate()
        self.child.wait(60)
        for _, fd in self.kept:
            os.close(fd)


class Host:
    def __init__(self, fleet, name, *options, service="perfleetd", keeper=True):
        self.fleet, self.name = fleet, name
        self.dir, self.sockets = fleet.dir / name, fleet.sockets(name)
        if service == "perfleetd":
            fleet.start_service(name)
        else:
            self.dir.mkdir()
            fleet.start(f"service-{name}", [service], env=self.sockets)
            wait_until((self.dir / "c").is_socket, f"no service at {name}")
        self.metrics = self.dir / "metrics"
        self.agent = [fleet.bin / "perfleet-agent", "--relay", fleet.relay_address, *fleet.tls(f"host-{name}"),
                      "--consumer-socket", self.dir / "c", "--sandbox", fleet.sandbox, "--retry-max-ms", "500",
                      "--metrics-socket", self.metrics, *options]
        self.keeper = None
        if keeper:
            (self.dir / "run").mkdir()
            self.keeper = fleet.start(f"agent-{name}", [fleet.bin / "perfleet-keep", "--restart-max-ms", "50", "--",
                                                        *self.agent], env={"RUNTIME_DIRECTORY": str(self.dir / "run")})

    # ---- what is there

    def call(self, method, path=""):
        """(status, body)"""
        got = subprocess.run([str(c) for c in (*self.client(), "call", method, f"/v1/hosts/{self.name}{path}")],
                             capture_output=True, text=True, timeout=60, check=False).stdout.partition("\n")
        return got[0], got[2]

    def client(self):
        keys = self.fleet.keys
        return [self.fleet.bin.parent / "tests/tunnel_client", self.fleet.relay_address, "test", keys / "ca.pem",
                keys / "operator-me.pem", keys / "operator-me.key"]

    def wait_connected(self):
        wait_until(lambda: '"is_connected":true' in self.call("GET")[1], f"{self.name} is not connected")

    def streams(self):
        status, text = self.call("GET", "/streams")
        return json.loads(text)["streams"] if status == "200" else []

    def pid(self):
        started = re.findall(r"program-started: pid=(\d+)", self.fleet.log(f"agent-{self.name}"))
        return int(started[-1]) if started and pathlib.Path(f"/proc/{started[-1]}/exe").exists() else None

    def kept(self):
        """What the keeper has of streams' memory: paths to open it by."""
        out = []
        for fd in pathlib.Path(f"/proc/{self.keeper.pid}/fd").iterdir():
            try:
                if "perfleet-stream" in os.readlink(fd):
                    out.append(fd)
            except OSError:
                pass
        return out

    def said(self, words):
        return self.fleet.log(f"agent-{self.name}").count(words)

    def sessions(self):
        client = Consumer(str(self.dir / "c"))
        answer = client.call("QueryServiceState", field(1, 1))
        client.close()
        return len(dict_of_lists(dict(fields(answer[1]))[1]).get(6, []))

    def figure(self, row):
        page = self.dir / "page"
        got = subprocess.run(["curl", "-sS", "-m", "20", "-o", page, "--unix-socket", self.metrics, "http://localhost/metrics"],
                             check=False, stderr=subprocess.DEVNULL).returncode
        return next(rows[row] for _, _, _, rows in metrics_check.parse(page) if row in rows) if got == 0 else None

    def produce(self, *options):
        self.fleet.start(f"producer-{self.name}", [self.fleet.bin / "perfleet-example", "--size", 900, "--smb-kb", 4096,
                                                   *options], env=self.sockets)

        def is_there():
            client = Consumer(str(self.dir / "c"))
            answer = client.call("QueryServiceState")
            client.close()
            return b"com.example.load" in answer[1]
        wait_until(is_there, f"no producer at {self.name}")

    # ---- what happens to it

    def kill(self):
        wait_until(self.pid, f"no agent at {self.name}")
        os.kill(self.pid(), signal.SIGKILL)

    def die(self, is_over=lambda: False, is_to_be_carried=True):
        """And its next process has its streams, which their operators found, but for when these are done."""
        before = self.said("streams-restored")
        self.kill()
        wait_until(lambda: self.said("streams-restored") > before or is_over(), f"{self.name}: nothing was restored")

        def is_carried():
            streams = self.streams()
            return is_over() or (streams and all(s["is_carried"] for s in streams))
        if is_to_be_carried:
            wait_until(is_carried, f"{self.name}: its operator does not come back")

    def deaths(self, is_over):
        """Of some its operators know, others come while they are about to come back."""
        dice, count = random.Random(self.name), 0
        while count < DEATHS and not is_over():
            time.sleep(dice.random() * 0.15)
            self.die(is_over, count % 3 == 0)
            count += 1
        return count

    def operator(self, ttl_ms=60000, zstd=False):
        words = ["env", "TUNNEL_ZSTD=1"] if zstd else []
        return slow_operator.Pipe([str(c) for c in (*words, "sh", "-c", 'exec "$@" 2>>"$0"', self.dir / "operator.err",
                                                    *self.client(), "cat", self.name, ttl_ms)])

    def operator_said(self):
        return (self.dir / "operator.err").read_text()


# ---- bytes both ways

class Asking:
    """Several questions at a time; each wants one answer."""

    def __init__(self, host):
        self.host = host
        self.asked = self.answered = self.twice = self.failed = self.out_of_order = 0
        self.last, self.over = {}, set()
        self.pipe = host.operator()
        self.client = Consumer(self.pipe)
        self.why = self.client.enable(field(1, field(1, 1024)) + field(2, field(1, field(1, slow_operator.SOURCE))))

    def ask(self):
        method, args = (("QueryServiceState", b""), ("Flush", field(1, 60000)), ("GetTraceStats", b""))[self.asked % 3]
        request = []

        def on_reply(success, has_more, _):
            if has_more:
                return
            self.twice += request[0] in self.over
            self.over.add(request[0])
            self.failed += not success
            self.answered += 1
            self.out_of_order += request[0] < self.last.get(method, 0)
            self.last[method] = request[0]
        request.append(self.client.invoke(method, args, on_reply))
        self.asked += 1

    def run(self, is_enough):
        while not is_enough() or self.answered < self.asked:
            while self.asked - self.answered < AT_ONCE and not is_enough():
                self.ask()
            if self.answered < self.asked and not self.client.dispatch():
                raise OSError("the stream broke: " + self.host.operator_said())
        self.client.call("QueryCapabilities")  # what comes twice comes before that
        self.pipe.close()


class Reading:
    """MIB of trace."""

    def __init__(self, host, zstd):
        self.pipe, self.out = host.operator(zstd=zstd), host.dir / "out.pftrace"
        client = Consumer(self.pipe)
        host.produce("--rate", 0, "--policy", "stall", "--count", COUNT)
        slow_operator.record(client, MIB)
        self.trace = slow_operator.Trace(client, self.out)

    def run(self, is_enough):
        self.trace.read_steadily(1e6, is_enough)
        self.trace.read_all()
        self.pipe.close()


def claim_both_ways(host, what, zstd, is_in_file):
    reading = Reading(host, zstd)
    if is_in_file:
        wait_until(lambda: host.streams()[0]["file_bytes"] > 0, "the spool's file is not in use")
    before, = host.streams()
    asking = Asking(host)
    enough = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = [pool.submit(reading.run, enough.is_set), pool.submit(asking.run, enough.is_set)]
        try:
            count = host.deaths(lambda: any(j.done() for j in jobs))
            for job in (j for j in jobs if j.done()):
                job.result()
            wait_until(lambda: len(host.streams()) == 2, "its streams are not listed")
            resumes = host.figure("perfleet_agent_stream_resumes_total")
            streams = host.streams()
            after = next(s for s in streams if s["id"] == before["id"])
        finally:
            enough.set()
        for job in jobs:
            job.result()
    check = subprocess.run([sys.executable, "-B", ROOT / "tests/support/trace_check.py", reading.out, "--contiguous",
                            "--test-sequences", f"1:0:{COUNT - 1}"], capture_output=True, text=True, check=False)
    claim(f"{what}: {MIB} MiB are read while the agent dies {count} times, each byte once and in order",
          check.returncode == 0 and count > 0, count, check.stdout, check.stderr)
    claim(f"{what}: of {asking.asked} questions each is answered once meanwhile",
          asking.asked > 0 and asking.answered == asking.asked and
          not (asking.why or asking.twice or asking.failed or asking.out_of_order), asking.why, asking.twice,
          asking.failed, asking.out_of_order)
    claim(f"{what}: the list of streams goes on: age, what was sent, how often it was resumed ({after['resumes']})",
          len(streams) == 2 and after["age_ms"] > before["age_ms"] and after["ttl_ms"] == 60000 and
          after["sent_bytes"] > 0 and 0 < after["resumes"] <= count and
          resumes is not None and resumes <= sum(s["resumes"] for s in streams), before, streams, resumes)


# ---- ends

def begin_session(host, ttl_ms=60000):
    """An operator's stream with a session."""
    pipe = host.operator(ttl_ms)
    client = Consumer(pipe)
    client.enable(field(1, field(1, 1024)))
    wait_until(lambda: host.sessions() == 1, "no session")
    return pipe, client


def claim_gone(host, what, pipe=None, words=""):
    """No session at the service, nothing at the keeper; and its operator, if there is one, gets the reason."""
    try:
        wait_until(lambda: host.sessions() == 0, "the session is still there")
        wait_until(lambda: not host.kept(), "the keeper has something left")
        if pipe is not None:
            wait_until(lambda: words in host.operator_said(), "the operator gets no reason")
            pipe.process.wait(60)
        claim(what, True)
    except TimeoutError as e:
        claim(what, False, e, host.operator_said(), host.fleet.log(f"agent-{host.name}"))


def claim_ends(host):
    pipe, _ = begin_session(host, 5000)
    host.kill()
    pipe.process.kill()  # not before: the time that counts is the next process's
    claim_gone(host, "a stream to which nobody comes back ends after a death, too")
    wait_until(lambda: host.figure(EXPIRED) == 1, "no loss is counted")
    claim("and is counted as lost", True)

    pipe, _ = begin_session(host)
    host.die()
    status = host.call("DELETE", f"/streams/{host.streams()[0]['id']}")[0]
    claim("a stream that was taken back can be killed", status == "204", status)
    claim_gone(host, "its session ends, nothing of it is kept, and its operator gets the reason", pipe,
               "killed at the other side")

    (host.dir / "operator.err").unlink()
    pipe, _ = begin_session(host)
    wait_until(host.kept, "the keeper has nothing")
    with open(host.kept()[0], "r+b", buffering=0) as memory:
        memory.seek(VERSION_AT)
        memory.write(b"\x63")
    host.kill()
    claim_gone(host, "what another version left ends: its session, what is kept; its operator gets the reason", pipe, "stream gone")
    claim("and the log says so", host.said("stream-not-restored") == 1, host.fleet.log(f"agent-{host.name}"))


def claim_without_keeper(fleet):
    host = Host(fleet, "alone", keeper=False)
    fleet.start("agent-alone", host.agent)
    host.wait_connected()
    pipe, _ = begin_session(host)
    fleet.end("agent-alone", signal.SIGKILL)
    wait_until(lambda: host.sessions() == 0, "the session is still there")
    fleet.start("agent-alone", host.agent)
    wait_until(lambda: pipe.process.poll() is not None, "its operator gets no reason")
    claim("without a manager a stream dies with its agent, and its operator gets the reason",
          "stream gone" in host.operator_said(), host.operator_said())


def claim_restart(fleet):
    host = Host(fleet, "restarted", keeper=False)
    store = Store(host.dir, host.agent, fleet.dir / "agent-restarted.log")
    store.start()
    host.wait_connected()
    _, client = begin_session(host)
    for n in range(3):
        starts = store.starts
        store.child.terminate()
        wait_until(lambda: store.starts > starts, "it is not started again")
        answer = client.call("GetTraceStats")
        claim(f"an agent that is asked to stop leaves its streams to the next one ({n + 1})",
              bool(answer and answer[0]) and host.sessions() == 1, answer, fleet.log("agent-restarted"))
    store.stop()


def claim_stock(fleet, programs):
    host = Host(fleet, "stock", "--spool-mib", "4", service=programs / "traced")
    host.produce("--rate", 1000)
    host.wait_connected()
    tunnel = host.dir / "far"
    fleet.start("tunnel", fleet.operator("tunnel", "stock", "--socket", tunnel))
    wait_until(tunnel.is_socket, "the tunnel does not listen")
    clients = []
    for name, more in (("memory", ""), ("file", "write_into_file: true file_write_period_ms: 200")):
        (host.dir / f"{name}.pbtx").write_text(STOCK % (2500, more))
        clients.append(fleet.start(f"perfetto-{name}", [programs / "perfetto", "--txt", "-c", host.dir / f"{name}.pbtx", "-o",
                                                        host.dir / f"{name}.pftrace"],
                                   env={"PERFETTO_CONSUMER_SOCK_NAME": str(tunnel)}))
    wait_until(lambda: len(host.streams()) == 2, "the clients do not begin")
    count = host.deaths(lambda: all(c.poll() is not None for c in clients))
    for name, client in zip(("memory", "file"), clients):
        code = client.wait(60)
        check = subprocess.run([sys.executable, "-B", ROOT / "tests/support/trace_check.py", host.dir / f"{name}.pftrace",
                                "--contiguous", "--min-packets", "1000"], capture_output=True, text=True,
                               check=False)
        claim(f"the stock client at the stock service ({name}): whole, while the agent dies {count} times",
              code == 0 and check.returncode == 0 and count > 0, code, check.stdout, check.stderr,
              fleet.log(f"perfetto-{name}"))


def find_sandbox(fleet):
    """All of it, where this kernel has it."""
    fleet.start("agent-probe", [fleet.bin / "perfleet-agent", "--relay", fleet.relay_address, *fleet.tls("host-plain"),
                                "--consumer-socket", fleet.dir / "none", "--sandbox", "require"])
    wait_until(lambda: "sandbox: " in fleet.log("agent-probe") or "sandbox-failed: " in fleet.log("agent-probe"), "no agent")
    fleet.end("agent-probe")
    return "auto" if "sandbox-failed: " in fleet.log("agent-probe") else "require"


def await_claims(job):
    try:
        job.result()
    except (Exception, SystemExit):  # pylint: disable=broad-except
        claim("all of it was tried", False, traceback.format_exc())


def main():
    programs = pathlib.Path(os.environ.get("PERFETTO_BIN_DIR", "/nonexistent"))
    with Fleet(sys.argv[1]) as fleet, concurrent.futures.ThreadPoolExecutor() as pool:
        policy, spool = fleet.dir / "policy.pbtx", fleet.dir / "spool"
        policy.write_text(POLICY)
        spool.mkdir()
        fleet.start_relay("--policy", policy)
        fleet.make_hosts(["plain", "gated", "ends", "alone", "restarted", "stock"])
        fleet.sandbox = find_sandbox(fleet)
        plain = Host(fleet, "plain", "--spool-mib", "4", "--spool-dir", spool)
        gated = Host(fleet, "gated", "--spool-mib", "4")
        ends = Host(fleet, "ends")
        for host in (plain, gated, ends):
            host.wait_connected()
        jobs = [pool.submit(claim_both_ways, plain, "plain, through the spool's file", False, True),
                pool.submit(claim_both_ways, gated, "with a role and zstd", True, False),
                pool.submit(claim_ends, ends),
                pool.submit(claim_without_keeper, fleet),
                pool.submit(claim_restart, fleet)]
        if (programs / "traced").exists():
            jobs.append(pool.submit(claim_stock, fleet, programs))
        else:
            claim("the stock client at the stock service # SKIP PERFETTO_BIN_DIR names no programs", True)
        for job in jobs:
            await_claims(job)
        claim("no spool's file has a name", not list(spool.iterdir()))
        logs = {p.name: p.read_text(errors="replace") for p in fleet.dir.glob("*.log")}
        noise = [n for n, text in logs.items() if any(w in text for w in ("Sanitizer", "runtime error:", "Assertion"))]
        claim("no sanitizer and no assertion complained", not noise, *(logs[n] for n in noise))


if __name__ == "__main__":
    main()
