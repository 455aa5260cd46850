# SPDX-License-Identifier: Apache-2.0
"""The network's seats: a stranger, a host with a certificate, an operator with the smallest role, a
relay whose certificate is revoked. Meanwhile an operator is served, new connections and all."""
import contextlib
import os
import socket
import subprocess
import threading
import time

import world
from world import Failed, get_slowness
from fleet import Fleet, wait_until
from tunnel_abuse import HEADERS, PREFACE, Peer, agent, frame, literal, tls

ATTACKS = ["stranger", "host_certificate", "smallest_role", "revoked_relay"]
LIMIT_S = 2.0  # an operator's answer, connection and all, on a busy machine
POLICY = """rule { name: "all" operator: "me" host: "*" }
rule { name: "least" operator: "least" host: "one" role: "least" }
role { name: "least" method: "QueryCapabilities" max_streams: 4 max_new_streams_per_min: 10 }
"""


class Net(Fleet):
    """A relay with a policy, a host behind it, and an operator who asks all the time."""

    def __init__(self, build):
        super().__init__(build)
        self.pki("operator", "least")
        self.pki("relay", "gone", "--ip", "127.0.0.1")
        self.pki("revoke", "relay", "gone")
        self.make_hosts(["one", "eve"])
        (self.dir / "policy").write_text(POLICY)
        self.worst_s, self.asked, self.failed, self.has_ended = 0.0, 0, None, False

    def __enter__(self):
        self.start_relay("--policy", self.dir / "policy", "--crl", self.keys / "crl.pem")
        self.start_service("one")
        self.start_agent("one", None, "--crl", self.keys / "crl.pem")
        wait_until(self.is_served, "the host does not come")
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        if world.LATENCY is not None:
            world.LATENCY.begin(self.use)
            world.LATENCY.begin_attack()
        return self

    def __exit__(self, *why):
        if world.LATENCY is not None:
            world.LATENCY.end()
        self.has_ended = True
        self.thread.join(60)
        return super().__exit__(*why)

    def peer(self, who="operator-me", alpn="h2"):
        return Peer(self.relay_address, str(self.keys), who, alpn)

    def use(self):
        with contextlib.closing(self.peer().sock) as sock:
            peer = Peer.__new__(Peer)
            peer.__dict__.update(sock=sock, pending=b"", is_closed=False, next_id=1, frames=[])
            status = peer.ask("GET", "/v1/hosts/one/clock")
        if status != 200:
            raise Failed("the operator is answered " + str(status))

    def is_served(self):
        with contextlib.suppress(Failed, OSError):
            self.use()
            return True
        return False

    def watch(self):
        try:
            while not self.has_ended:
                begin = time.monotonic()
                self.use()
                self.worst_s = max(self.worst_s, time.monotonic() - begin)
                self.asked += 1
                time.sleep(0.02)
        except Exception as why:  # noqa: BLE001
            self.failed = why

    def judge(self, words=""):
        """Nobody else noticed."""
        asked = self.asked
        wait_until(lambda: self.failed or self.asked > asked + 2, "the operator waits for ever")
        if self.failed or self.worst_s > LIMIT_S * get_slowness():
            raise Failed("the operator waited %.1f s; %r" % (self.worst_s, self.failed))
        return "%san operator waited %.3f s at most" % (words, self.worst_s)


def stranger(build):
    """who has no certificate reads nothing, and holds up nobody by garbage, silence or half a handshake"""
    with Net(build) as net:
        host, _, port = net.relay_address.rpartition(":")
        kept, read = [], b""
        for i in range(120):
            sock = socket.create_connection((host, int(port)), 10)
            kept.append(sock)
            with contextlib.suppress(OSError):
                sock.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", PREFACE, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
                              os.urandom(500))[i % 5])
        for alpn in ("h2", "pfl-agent/1", "perfetto-consumer/1", "none"):
            with contextlib.suppress(OSError):
                sock = tls(net.relay_address, str(net.keys), "none", alpn)
                sock.settimeout(5)
                sock.sendall(PREFACE + frame(4, 0, 0))
                read += sock.recv(1000)
        time.sleep(1)
        if read:
            raise Failed("the stranger read %r" % read[:50])
        return net.judge()


def host_certificate(build):
    """a host's certificate opens no other door, and takes no other host's name or streams"""
    with Net(build) as net:
        for alpn in ("h2", "perfetto-consumer/1", "none"):
            with contextlib.suppress(OSError):
                sock = tls(net.relay_address, str(net.keys), "host-eve", alpn)
                sock.settimeout(5)
                sock.sendall(PREFACE + frame(4, 0, 0) + frame(1, 5, 1, literal(":method", "GET")))
                got = sock.recv(1000)
                if got:
                    raise Failed("with ALPN %s it reads %r" % (alpn, got[:50]))
        peers = [agent(net.relay_address, str(net.keys), "host-eve") for _ in range(6)]
        for peer in peers:  # an agent asks nothing: it has no streams of its own
            peer.next_id = 101
            peer.begin("GET", "/v1/hosts")
            got = peer.read(1)
            while got is not None and not (got[0] == HEADERS and got[2] == 101):
                got = peer.read(1)
            if got is not None:
                raise Failed("the relay answers an agent's request")
        return net.judge()


def smallest_role(build):
    """an operator with the smallest role gets no other method, host or stream, and no role of his making"""
    with Net(build) as net:
        mine = net.peer()
        stream, status = mine.connect("one", [("perfleet-stream", "ab" * 16), ("perfleet-window", "65536"),
                                              ("perfleet-ttl-ms", "60000")])
        if status != 200:
            raise Failed("the victim's stream is answered %s" % status)
        least = net.peer("operator-least")
        asked = {
            "another host": least.ask("GET", "/v1/hosts/eve/hello"),
            "a host that never was": least.ask("GET", "/v1/hosts/nowhere/hello"),
            "another's stream": least.connect("one", [("perfleet-stream", "ab" * 16),
                                                      ("perfleet-received", "0"), ("perfleet-credited", "0"),
                                                      ("perfleet-window", "65536")])[1],
            "killing it": least.ask("DELETE", "/v1/hosts/one/streams/" + "ab" * 16),
        }
        for what, got in asked.items():
            if got not in (403, 404, 409, 410, 429, "reset"):
                raise Failed("%s is answered %s" % (what, got))
        config = net.dir / "least.pbtx"
        config.write_text('buffers { size_kb: 64 } data_sources { config { name: "x" } } duration_ms: 100\n')
        command = net.operator("record", "-c", config, "-o", net.dir / "x.pftrace", "--host", "one")
        command = [c.replace("operator-me.", "operator-least.") for c in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 or "does not allow" not in done.stderr + done.stdout:
            raise Failed("he records, or is told else: " + done.stderr[-200:])
        statuses = [least.connect("one", [("perfleet-window", "65536")])[1] for _ in range(20)]
        if statuses.count(200) > 10:
            raise Failed("he has %d streams in a minute" % statuses.count(200))
        if mine.ask("GET", "/v1/hosts/one/streams") != 200 or mine.is_closed:
            raise Failed("the victim's connection is gone")
        return net.judge()


def revoked_relay(build):
    """a relay that was revoked gets neither hosts nor operators who have the list"""
    with Net(build) as net:
        log = net.dir / "gone.log"
        net.start("gone", [net.program("relay", "perfleet-relay"), "--listen", "127.0.0.1:0",
                           *net.tls("relay-gone")])
        wait_until(lambda: "listening" in log.read_text(), "the revoked relay does not listen")
        port = log.read_text().split("port=")[1].split()[0].strip('"')
        bad = "127.0.0.1:" + port
        net.start("agent-eve", [net.program("eve", "perfleet-agent"), "--relay", bad, *net.tls("host-eve"),
                                "--crl", net.keys / "crl.pem", "--consumer-socket", net.dir / "one" / "c"])
        done = net.ask("query", "--crl", net.keys / "crl.pem", "--select", "*", relay=bad)
        if done.returncode == 0 or "revoked" not in done.stderr + done.stdout:
            raise Failed("the operator says: " + done.stderr[-200:])
        wait_until(lambda: "revoked" in net.log("agent-eve"), "the agent does not say that it is revoked")
        if "agent-connected" in log.read_text() or "host-connected" in log.read_text():
            raise Failed("a host came to the revoked relay")
        return net.judge()
