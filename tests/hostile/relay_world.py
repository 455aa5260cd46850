# SPDX-License-Identifier: Apache-2.0
"""A relay under attack from the network: a service behind it, an operator who uses it all the time,
operators who come for the first time, and strangers at many addresses of loopback."""
import contextlib
import json
import os
import pathlib
import selectors
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from world import LIMIT_S, Failed
from service_peers import Consumer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEWCOMERS = 8  # who come in turn: one certificate alone would come too often
QUESTION_S = 0.005  # between two questions of the operator
LINGER_NONE = b"\1\0\0\0\0\0\0\0"


class TlsSocket:
    """A TLS connection as service_peers wants its sockets."""

    def __init__(self, tls):
        self.tls = tls

    def fileno(self):
        return self.tls.fileno()

    def sendall(self, data):
        self.tls.sendall(data)

    def recvmsg(self, size, *_):
        return self.tls.recv(size), [], 0, None

    def close(self):
        self.tls.close()


def connect(port, context, source, timeout_s):
    sock = socket.create_connection(("127.0.0.1", port), timeout_s, source_address=(source, 0))
    return context.wrap_socket(sock)


def make_hello(context):
    """A ClientHello as it goes over the wire."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


class Process:
    """A function in a process of its own that says what it found as JSON when it is ended."""

    def __init__(self, function, *args, nice=0):
        self.read, write = os.pipe()
        self.stay, self.stay_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.read)
                os.close(self.stay_end)
                os.nice(nice)
                result = function(self.is_over, *args)
                os.write(write, json.dumps(result).encode())
                code = 0
            except BaseException as why:  # noqa: BLE001
                os.write(write, json.dumps({"failed": repr(why)}).encode())
            finally:
                os._exit(code)
        os.close(write)
        os.close(self.stay)

    def is_over(self):
        """In the child: the parent has seen enough."""
        import select
        return bool(select.select([self.stay], [], [], 0)[0])

    def end(self):
        """What it found; {} the second time."""
        if self.pid == 0:
            return {}
        os.close(self.stay_end)
        text = b""
        while True:
            piece = os.read(self.read, 65536)
            if not piece:
                break
            text += piece
        os.close(self.read)
        os.waitpid(self.pid, 0)
        self.pid = 0
        found = json.loads(text or b"{}")
        if "failed" in found:
            raise Failed(found["failed"])
        return found


def ask_all_the_time(is_over, port, context):
    """Asks every QUESTION_S; how many answers came, and how late."""
    consumer = Consumer(TlsSocket(connect(port, context, "127.0.0.1", LIMIT_S)))
    waits, begin = [], time.monotonic()
    due = begin
    while not is_over():
        due = max(due + QUESTION_S, time.monotonic() - 0.1)
        since = time.monotonic()
        if consumer.call("QueryCapabilities") is None:
            raise Failed("the relay ended the operator's connection")
        waits.append(time.monotonic() - since)
        time.sleep(max(0, due - time.monotonic()))
    waits.sort()
    return {"rate": len(waits) / (time.monotonic() - begin), "median_ms": waits[len(waits) // 2] * 1e3,
            "p99_ms": waits[len(waits) * 99 // 100] * 1e3, "longest_ms": waits[-1] * 1e3}


class Flood:
    """Replays a ClientHello from many addresses, each at its rate."""

    def __init__(self, port, hello, rates):
        self.port, self.hello = port, hello
        self.sources = [[address, 1 / rate, 0.0] for address, rate in rates]
        self.selector = selectors.EpollSelector()
        self.open = {}  # socket -> since, oldest first
        self.counts = {"sent": 0, "answered": 0, "dropped": 0}

    def begin(self, address):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
        sock.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        try:
            sock.bind((address, 0))
            sock.connect_ex(("127.0.0.1", self.port))
            sock.send(self.hello)
            self.counts["sent"] += 1
        except OSError:
            self.counts["dropped"] += 1
            sock.close()
            return
        self.open[sock] = time.monotonic()
        self.selector.register(sock, selectors.EVENT_READ)

    def end(self, sock):
        del self.open[sock]
        self.selector.unregister(sock)
        sock.close()

    def turn(self):
        now = time.monotonic()
        for source in self.sources:
            if source[2] < now - 0.2:
                source[2] = now - 0.2 if source[2] else now
            while source[2] <= now:
                source[2] += source[1]
                self.begin(source[0])
        for key, _ in self.selector.select(0.002):
            with contextlib.suppress(OSError):
                self.counts["answered"] += bool(key.fileobj.recv(4096))
            self.end(key.fileobj)
        for sock in [s for s, since in list(self.open.items())[:64] if since < now - 2]:
            self.end(sock)


def flood(is_over, port, hello, rates):
    it, begin = Flood(port, hello, rates), time.monotonic()
    while not is_over():
        it.turn()
    took_s = time.monotonic() - begin
    return {name + "_per_s": count / took_s for name, count in it.counts.items()}


def close_all(is_over, listener):
    while not is_over():
        with contextlib.suppress(OSError):
            for _ in range(100):
                listener.accept()[0].close()
    return {}


class RelayWorld:
    """Ports: `main`, `join`, `metrics` of one relay."""

    def __init__(self, build, options=()):
        self.build = build
        self.priority = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, -15)  # other work of the machine is not to be measured
        self.processes, self.children = [], []
        self.folder = tempfile.TemporaryDirectory(prefix="pfl.", dir="/tmp")
        self.dir = pathlib.Path(self.folder.name)
        self.pki = self.dir / "pki"
        for command in (["init", "--fleet", "test"], ["operator", "me"], ["operator", "mallory"],
                        *(["operator", "new%d" % n] for n in range(NEWCOMERS)),
                        ["host", "h", "--ip", "127.0.0.1"]):
            subprocess.run([ROOT / "deploy/pki/perfleet-pki", command[0], self.pki, *command[1:]],
                           check=True, capture_output=True)
        self.signer = self.listen_as_signer()
        self.start("perfleetd", "--producer-socket", self.dir / "producer", "--consumer-socket",
                   self.dir / "consumer")
        self.wait_for(lambda: (self.dir / "consumer").exists(), "perfleetd")
        self.relay = self.start(
            "perfleet-relay", "--listen", "127.0.0.1:0", "--consumer-socket", self.dir / "consumer",
            "--ca", self.pki / "ca.pem", "--crl", self.pki / "crl.pem", "--cert", self.pki / "host-h.pem",
            "--key", self.pki / "host-h.key", "--join-listen", "127.0.0.1:0", "--signer",
            self.dir / "signer", "--metrics-listen", "127.0.0.1:0", *options)
        self.wait_for(lambda: " listening: " in self.log("perfleet-relay"), "the relay")
        self.ports = {"main": self.port_of(" listening:"), "join": self.port_of("join-listening:"),
                      "metrics": self.port_of("metrics-offered:")}
        self.context = self.make_context("me")
        self.newcomers = [self.make_context("new%d" % n) for n in range(NEWCOMERS)]
        self.hello = make_hello(self.context)

    def make_context(self, operator):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.pki / "ca.pem")
        context.load_cert_chain(self.pki / ("operator-%s.pem" % operator), self.pki / ("operator-%s.key" % operator))
        return context

    def listen_as_signer(self):
        """Says a word to whoever is carried there."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.dir / "signer"))
        listener.listen(64)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    peer.sendall(b"hi")
                    peer.close()
        threading.Thread(target=serve, daemon=True).start()
        return listener

    def start(self, program, *args):
        with open(self.dir / (program + ".log"), "w") as log:
            child = subprocess.Popen([self.build / "bin" / program, *map(str, args)], stdout=log, stderr=log)
        self.children.append(child)
        return child

    def log(self, program):
        return (self.dir / (program + ".log")).read_text(errors="replace")

    def wait_for(self, claim, what):
        end = time.monotonic() + LIMIT_S
        while not claim():
            if time.monotonic() > end or any(child.poll() is not None for child in self.children):
                raise Failed(what + " does not start: " + self.log("perfleetd") +
                             (self.log("perfleet-relay") if len(self.children) > 1 else ""))
            time.sleep(0.02)

    def port_of(self, event):
        line = next(line for line in self.log("perfleet-relay").splitlines() if event in line)
        return int(line.split("port=")[1].split()[0])

    def begin(self, function, *args, nice=0):
        process = Process(function, *args, nice=nice)
        self.processes.append(process)
        return process

    def operator(self):
        return self.begin(ask_all_the_time, self.ports["main"], self.context)

    def closer(self):
        """The port of a server that closes what comes."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        listener.settimeout(0.1)
        self.begin(close_all, listener)
        return listener.getsockname()[1]

    def flood(self, port, rates):
        return self.begin(flood, port, self.hello, rates)

    def enter(self, listener, source):
        """Seconds until somebody new is in."""
        context = self.newcomers.pop(0)
        self.newcomers.append(context)
        since = time.monotonic()
        tls = connect(self.ports[listener], context, source, LIMIT_S)
        if listener == "main":
            if Consumer(TlsSocket(tls)).call("QueryCapabilities") is None:
                raise Failed("not let in")
        else:
            if listener == "metrics":
                tls.sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
            if not tls.recv(65536):
                raise Failed("not let in")
        took_s = time.monotonic() - since
        tls.close()
        return took_s

    def cpu_s(self):
        stat = pathlib.Path("/proc/%d/stat" % self.relay.pid).read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def figures(self):
        """Of the relay's metrics port, by name (with labels)."""
        with connect(self.ports["metrics"], self.context, "127.0.0.1", LIMIT_S) as tls:
            tls.sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
            text = b""
            while True:
                piece = tls.recv(65536)
                if not piece:
                    break
                text += piece
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.decode().splitlines() if line.startswith("perfleet") or line.startswith("process")}

    def close(self):
        for process in self.processes:
            if process.pid != 0:
                os.kill(process.pid, signal.SIGKILL)
                with contextlib.suppress(Failed, ValueError):
                    process.end()
        self.signer.close()
        for child in reversed(self.children):
            child.kill()
            child.wait()
        self.folder.cleanup()
        os.setpriority(os.PRIO_PROCESS, 0, self.priority)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()
