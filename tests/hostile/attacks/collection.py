# SPDX-License-Identifier: Apache-2.0
"""The seats of central collection: an operator who may not collect, a collector, an operator who lies to
one, a host that reports its spool. Meanwhile an operator is served, new connections and all."""
import contextlib
import json
import signal
import time

from attacks.network import Net
from tunnel_abuse import (DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST, Peer, agent, answer_all,
                          asks_for, field_of, frame, status_of)
from fleet import wait_until
from world import Failed

ATTACKS = ["no_right", "false_claims", "odd_names", "spool_flood", "trigger_flood", "thousand_streams",
           "silent_host", "silent_hosts", "slow_host", "all_streams"]
SPOOL, COLLECTOR = "perfleet-spool", "perfleet-collector"
POLICY = """rule { name: "all" operator: "me" host: "*" }
rule { name: "collector" operator: "col" host: "*" role: "collect" }
rule { name: "orderer" operator: "ann" host: "*" role: "order" }
rule { name: "other" operator: "bob" host: "*" role: "none" }
role { name: "collect" method: "none" collect: true }
role { name: "order" order: true }
role { name: "none" max_streams: 4 }
"""
HELLO = {"/v1/hello": (b"{}", True)}


class Collection(Net):
    """The network's world, with a policy for collectors, and host eve, which is played."""

    def __init__(self, build, *options):
        super().__init__(build, *options)
        self.pki("operator", "col")
        self.pki("operator", "ann")
        self.pki("operator", "bob")
        (self.dir / "policy").write_text(POLICY)

    def dial(self, peer, path, protocol, fields=()):
        stream = peer.begin("CONNECT", path, fields, False, protocol=protocol)
        return stream, peer.answer(stream)

    def play_eve(self, answers=None):
        """Its connection, once the relay has its hello."""
        peer = agent(self.relay_address, str(self.keys), "host-eve")
        answer_all(peer, {**HELLO, **(answers or {})}, lambda path: path == "/v1/hello")
        return peer


def expect(what, got, *wanted):
    if got not in wanted:
        raise Failed("%s is answered %s" % (what, got))


def next_connect(peer):
    """The head of the next CONNECT to a played host, whose other requests stay without an answer."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not peer.is_closed:
        got = peer.read(1)
        if got and got[0] == HEADERS and field_of(got[3], ":protocol") is not None:
            return got
    raise Failed("the relay does not ask the host")


def no_right(build):
    """who may not collect is no collector, and reads no spool, no list of spools and no scope"""
    with Collection(build) as net:
        for who in ("operator-ann", "operator-bob", "host-eve", "relay-gone"):
            with contextlib.suppress(OSError):
                peer = Peer(net.relay_address, str(net.keys), who, "pfl-collector/1")
                peer.sock.settimeout(5)
                got = peer.sock.recv(1000)
                if got:
                    raise Failed("%s is a collector: it reads %r" % (who, got[:50]))
        for who in ("ann", "bob"):
            peer = net.peer("operator-" + who)
            for path, fields in (("/v1/hosts/one/spool", ()), ("/v1/hosts/one/spool", [("perfleet-for", "ann")]),
                                 ("/v1/hosts/one/spool", [("perfleet-for", "me")]),
                                 ("/v1/hosts/nowhere/spool", ())):
                expect("%s's CONNECT %s" % (who, path), net.dial(peer, path, SPOOL, fields)[1], 403)
            expect("%s's spools" % who, peer.ask("GET", "/v1/spools"), 403)
            expect("%s's scope" % who, peer.ask("GET", "/v1/scopes/" + who), 403)
        col = net.peer("operator-col")
        expect("the collector's scope of another", col.ask("GET", "/v1/scopes/ann"), 200)
        expect("its list", col.ask("GET", "/v1/spools"), 200)
        for orderer in ("bob", "nobody"):
            expect("an order for " + orderer, net.dial(col, "/v1/hosts/one/spool", SPOOL,
                                                       [("perfleet-for", orderer)])[1], 403)
        lines = [json.loads(line) for line in (net.dir / "audit").read_text().splitlines()]
        refused = [line for line in lines if line["action"] == "refuse" and line["status"] == 403]
        if not {"ann", "bob", "col"} <= {line["who"] for line in refused}:
            raise Failed("the audit log has %r" % refused)
        return net.judge()


def false_claims(build):
    """what an operator says of who he is, for whom and with which role reaches neither host nor collector"""
    claims = [("perfleet-operator", "me"), ("perfleet-collector", "me"), ("perfleet-role", "0a016d"),
              ("perfleet-stream", "ab" * 16), ("perfleet-received", "0")]
    with Collection(build) as net:
        eve, col = net.play_eve(), net.peer("operator-col")
        col.begin("CONNECT", "/v1/hosts/eve/spool", claims + [("perfleet-for", "ann")], False, protocol=SPOOL)
        head = next_connect(eve)[3]
        got = {name: field_of(head, name) for name in
               ("perfleet-operator", "perfleet-collector", "perfleet-for", "perfleet-role", "perfleet-stream")}
        if got != {"perfleet-operator": "ann", "perfleet-collector": "col", "perfleet-for": "ann",
                   "perfleet-role": "0a056f72646572", "perfleet-stream": None}:
            raise Failed("the host reads %r" % got)
        back = agent(net.relay_address, str(net.keys), "operator-col", "pfl-collector/1")
        end = time.monotonic() + 60
        bob = net.peer("operator-bob")
        while net.peer().ask("GET", "/v1/collectors") == 200 and "collector=col" not in net.log("relay"):
            if time.monotonic() > end:
                raise Failed("the collector does not come")
            back.read(0.1)
        bob.begin("CONNECT", "/v1/collectors/col", claims, False, protocol=COLLECTOR)
        head = next_connect(back)[3]
        got = {name: field_of(head, name) for name, _ in claims if name != COLLECTOR}  # the protocol is called so
        if got != {**dict.fromkeys(got), "perfleet-operator": "bob"}:
            raise Failed("the collector reads %r" % got)
        return net.judge()


def odd_names(build):
    """names that can be no operator's, host's or collector's are refused, and so are versions that are none"""
    with Collection(build) as net:
        odd = ["", "..", ".x", "-x", "a/b", "a%2fb", "a b", b"a\x1b[2J", b"\xff\xfe", "x" * 64, "x" * 3000, "a?b", "a#b"]
        for name in odd:
            raw = name if isinstance(name, bytes) else name.encode()
            for method, path in (("GET", b"/v1/scopes/" + raw), ("CONNECT", b"/v1/collectors/" + raw),
                                 ("CONNECT", b"/v1/hosts/" + raw + b"/spool")):
                peer = net.peer("operator-col")
                stream = peer.begin(method, path, (), method == "GET",
                                    protocol=COLLECTOR if b"collectors" in path else SPOOL)
                expect("%s %r" % (method, path[:60]), peer.answer(stream), 400, 404, 431, "reset", "closed")
            if raw:
                got = net.dial(net.peer("operator-col"), "/v1/hosts/one/spool", SPOOL, [("perfleet-for", raw)])[1]
                expect("an order for %r" % raw[:60], got, 400, 403, 431, "reset", "closed")
            expect("a version %r" % raw[:60], net.peer("operator-col").ask(
                "GET", "/v1/spools", [("perfleet-after", raw)]), 200, 431, "reset", "closed")
        return net.judge()


def spool_flood(build):
    """a host that reports its spool without end delays nobody, and collectors get what others report"""
    with Collection(build) as net:
        lines = b"".join(json.dumps({"kind": "spool", "segments": i, "bytes": i * i, "orders": "%016x" % i},
                                    separators=(",", ":")).encode() + b"\n" for i in range(20000))
        for _ in range(3):
            eve = net.play_eve({"/v1/events": (lines, False)})
            answer_all(eve, {"/v1/events": (lines, False)}, lambda path: path == "/v1/events")
            eve.send(frame(PING, 0, 0, b"12345678"))  # its answer says that all before it was taken
            while not eve.is_closed and (eve.read() or (0,))[0] != PING:
                pass
        col = net.peer("operator-col")
        stream, body = col.begin("GET", "/v1/spools"), b""
        while b"]}" not in body:
            got = col.read(60)
            if got is None:
                raise Failed("the collector has no answer: %r" % body[-100:])
            body += got[3] if got[0] == DATA and got[2] == stream else b""
        if {"one", "eve"} - {host["name"] for host in json.loads(body)["hosts"]}:
            raise Failed("the list is %r" % body)
        return net.judge()


def trigger_flood(build):
    """a host that raises an order's triggers without end has other hosts copy as often as an order may"""
    with Collection(build) as net:
        net.pki("host", "vic")
        vic = agent(net.relay_address, str(net.keys), "host-vic")
        answer_all(vic, HELLO, lambda path: path == "/v1/hello")
        names = ("boom", "bang")
        lines = b"".join(json.dumps({"kind": "trigger", "operator": "ann", "order": "web", "trigger": names[i % 2],
                                     "id": "01J%023d" % i}, separators=(",", ":")).encode() + b"\n"
                         for i in range(20000))
        begin, raised = time.monotonic(), []
        for _ in range(3):
            eve = net.play_eve({"/v1/events": (lines, False)})
            answer_all(eve, {"/v1/events": (lines, False)}, lambda path: path == "/v1/events")
            end = time.monotonic() + 2
            while time.monotonic() < end or not raised:
                if time.monotonic() > end + 60 or vic.is_closed:
                    raise Failed("no trigger reaches the other host")
                eve.read(0.01)
                got = vic.read(0.1)
                if got and got[0] == HEADERS and got[3][:1] != b"\x82":  # no GET: the PUT of a trigger
                    raised.append(got)
                    vic.send(frame(HEADERS, END_HEADERS | END_STREAM, got[2], b"\x08\x03410"))
        took_s = time.monotonic() - begin
        if len(raised) > 10 + took_s + 1:  # a host's events of triggers: 10 at once, and 1 a second
            raise Failed("60000 are %d in %.1f s" % (len(raised), took_s))
        return net.judge("60000 are %d in %.1f s; " % (len(raised), took_s))


def thousand_streams(build):
    """a collector that opens a thousand streams to a host leaves some of the host's to others"""
    with Collection(build) as net:
        eve = net.play_eve()
        peers = [net.peer("operator-col") for _ in range(4)]
        for i in range(1000):
            peers[i % 4].begin("CONNECT", "/v1/hosts/eve/spool", (), False, protocol=SPOOL)
        asked, refused, end = 0, 0, time.monotonic() + 60
        while asked + refused < 1000 and time.monotonic() < end:
            for peer in peers:
                got = peer.read(0.01)
                if got and (got[0] == RST or (got[0] == HEADERS and status_of(got[3]) == 429)):
                    refused += 1
                if peer.is_closed or (got and got[0] == GOAWAY):
                    raise Failed("the collector's connection is gone")
            got = eve.read(0.01)
            asked += got is not None and got[0] == HEADERS and field_of(got[3], ":protocol") is not None
            if asked >= 100 and refused >= 700:
                break
        if refused < 700:
            raise Failed("%d of 1000 are refused, %d reach the host" % (refused, asked))
        ask_clock(net, eve)
        return net.judge("%d of 1000 refused; " % refused)


def all_streams(build):
    """a collector that opens as many streams to a host as it may leaves half of them to other collectors"""
    with Collection(build) as net:
        net.pki("operator", "other")
        (net.dir / "policy").write_text(POLICY.replace('operator: "col"', 'operator: "col" operator: "other"'))
        net.children["relay"].send_signal(signal.SIGHUP)
        net.end("agent-one")
        (net.dir / "segments").mkdir()
        net.start_agent("one", None, "--segments-dir", net.dir / "segments")
        wait_until(net.is_served, "the host does not come back")
        peers = {who: net.peer("operator-" + who) for who in ("col", "other")}
        got = {who: [net.dial(peer, "/v1/hosts/one/spool", SPOOL)[1] for _ in range(40 if who == "col" else 1)]
               for who, peer in peers.items()}
        if got["col"].count(200) != 8 or got["other"] != [200]:
            raise Failed("the collector has %d of 16 streams, another one is answered %r" % (
                got["col"].count(200), got["other"]))
        return "the collector has 8 of 16 streams"


def silent_host(build):
    """a host that takes a collector's stream and never answers is given up"""
    report = (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)
    with Collection(build) as net:
        eve = net.play_eve()
        answer_all(eve, {"/v1/events": report}, lambda path: path == "/v1/events")
        store = net.dir / "store"
        store.mkdir()
        net.start("collector", [net.program("collector", "perfleet-collector"), "--relay", net.relay_address, "--store",
                                store, "--max-visits", "1", "--ca", net.keys / "ca.pem", "--cert",
                                net.keys / "operator-col.pem", "--key", net.keys / "operator-col.key"])
        role = b"\x00\x0dperfleet-role\x07collect"
        end = time.monotonic() + 180
        while "the visit ends" not in net.log("collector"):
            if time.monotonic() > end:
                raise Failed("it waits for the silent host: %s" % net.log("collector")[-300:])
            got = eve.read(0.1)
            if got and got[0] == HEADERS and field_of(got[3], ":protocol") is not None:
                eve.send(frame(HEADERS, END_HEADERS, got[2], b"\x88" + role))
        return net.judge()


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, value):
    """A protobuf field: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Spool:
    """The collector's streams to a played host. Each request is an id, which is the first field, and what is asked."""

    def __init__(self, peer):
        self.peer, self.bytes = peer, {}
        self.message = b""  # the last request, serialized

    def read(self):
        """The next request as (stream, id, the number of its field), or None."""
        got = self.peer.read(0.05)
        if got and got[0] == HEADERS and field_of(got[3], ":protocol") is not None:
            self.bytes[got[2]] = b""
            self.peer.send(frame(HEADERS, END_HEADERS, got[2], b"\x88\x00\x0dperfleet-role\x07collect"))
        if not got or got[0] != DATA or got[2] not in self.bytes:
            return None
        held = self.bytes[got[2]] + got[3]
        size = 4 + int.from_bytes(held[:4], "little")
        if len(held) < max(size, 5):
            self.bytes[got[2]] = held
            return None
        self.bytes[got[2]] = held[size:]
        self.message = held[4:size]
        at, number, shift = 5, 0, 0
        while True:
            number, shift, at = number | (held[at] & 127) << shift, shift + 7, at + 1
            if held[at - 1] < 128:
                return got[2], number, held[at] >> 3

    def reply(self, stream, number, *fields):
        message = field(1, number) + b"".join(fields)
        self.peer.send(frame(DATA, 0, stream, len(message).to_bytes(4, "little") + message))


LIST_SEGMENTS, READ_SEGMENT = 5, 6


def slow_host(build):
    """a host that gives a byte a second of a segment has no visit for ever while another host waits"""
    report = (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)
    segment = b"".join([field(2, b"ann"), field(3, b"web"), field(4, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"), field(5, 1),
                        field(6, 1 << 20), field(7, b"x" * 32), field(11, 1), field(12, 2)])
    with Collection(build) as net:
        net.pki("host", "mal")
        peers = {"eve": net.play_eve(), "mal": agent(net.relay_address, str(net.keys), "host-mal")}
        for peer in peers.values():
            answer_all(peer, {**HELLO, "/v1/events": report}, lambda path: path == "/v1/events")
        (net.dir / "store").mkdir()
        net.start("collector", [net.program("collector", "perfleet-collector"), "--relay", net.relay_address, "--store",
                                net.dir / "store", "--max-visits", "1", "--ca", net.keys / "ca.pem", "--cert",
                                net.keys / "operator-col.pem", "--key", net.keys / "operator-col.key"])
        eve, mal = Spool(peers["eve"]), Spool(peers["mal"])
        given, reading, at = 0, None, 0
        end = time.monotonic() + 300
        while True:
            if time.monotonic() > end:
                raise Failed("the other host waits, after %d bytes: %s" % (given, net.log("collector")[-300:]))
            got = eve.read()
            if got and got[2] == READ_SEGMENT:
                reading = got
            elif got:
                eve.reply(got[0], got[1], *([field(6, segment)] if got[2] == LIST_SEGMENTS else []))
            if reading and time.monotonic() - at > 1:
                eve.reply(reading[0], reading[1], field(2, 1), field(7, b"x"))
                at, given = time.monotonic(), given + 1
            got = mal.read()
            if got and got[2] == LIST_SEGMENTS and given > 0:
                return net.judge("the other host waited for %d bytes; " % given)
            if got:
                mal.reply(got[0], got[1], *([field(3, 503)] if got[2] == LIST_SEGMENTS else []))


def accept_streams(peer):
    """Takes what a collector asks for, and never answers."""
    got = peer.read(0.01)
    if got and got[0] == HEADERS and field_of(got[3], ":protocol") is not None:
        peer.send(frame(HEADERS, END_HEADERS, got[2], b"\x88\x00\x0dperfleet-role\x07collect"))


def silent_hosts(build):
    """hosts that never answer have a visit for some seconds each, and then no more than half of the visits"""
    report = {**HELLO, "/v1/events": (b'{"kind":"spool","segments":9,"bytes":900,"orders":"0000000000000000"}\n', False)}
    names = ["s%d" % i for i in range(6)]
    with Collection(build) as net:
        net.make_hosts([*names, "good"])
        (net.dir / "store").mkdir()
        net.start("collector", [net.program("collector", "perfleet-collector"), "--relay", net.relay_address, "--store",
                                net.dir / "store", "--max-visits", "2", *net.tls("operator-col")])
        silent = [agent(net.relay_address, str(net.keys), "host-" + name) for name in names]
        for peer in silent:
            answer_all(peer, report, lambda path: path == "/v1/events")
        good = Spool(agent(net.relay_address, str(net.keys), "host-good"))
        answer_all(good.peer, report, lambda path: path == "/v1/events")
        begin, visits = time.monotonic(), []
        while len(visits) < 4:
            if time.monotonic() > begin + 150:
                raise Failed("the other host is visited after %s s" % visits)
            for peer in silent:
                accept_streams(peer)
            got = good.read()
            if got and got[2] == LIST_SEGMENTS:
                visits.append(round(time.monotonic() - begin, 1))
            if got:
                good.reply(got[0], got[1], field(3, 503))
        return net.judge("the other host is visited after %s s; " % visits)


def ask_clock(net, eve):
    """Another operator's request to the host that is full of streams."""
    peer = net.peer()
    stream = peer.begin("GET", "/v1/hosts/eve/clock")
    for _ in range(600):
        got = eve.read(0.1)
        if got and got[0] == HEADERS and asks_for(got[3], "/v1/clock"):
            eve.send(frame(HEADERS, END_HEADERS, got[2], b"\x88") + frame(
                DATA, END_STREAM, got[2], b'{"receive_ns":1,"send_ns":1}'))
        got = peer.read(0.01)
        if got and got[0] == HEADERS and got[2] == stream:
            expect("another's request", status_of(got[3]), 200)
            return
    raise Failed("another's request is not answered")
