#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of a relay that break its rules, over real TLS, with HTTP/2 by hand. Each prints one line of
TAP for each claim of its own; what the relay is like afterwards is the caller's to ask.

  tunnel_abuse.py knock  RELAY PKI CERT ALPN       nobody may answer CERT ("none": without one)
  tunnel_abuse.py names  RELAY PKI CERT            paths that can be no host's
  tunnel_abuse.py steal  RELAY PKI CERT HOST ID    another operator's stream
  tunnel_abuse.py flood  RELAY PKI CERT WHAT HOST  WHAT: a function below named flood_WHAT
  tunnel_abuse.py hog    RELAY PKI CERT OTHER HOST PID  one fills a host, PID its agent; OTHER's turn
  tunnel_abuse.py rest   RELAY PKI CERT OTHER HOST  streams of which one byte is left unread; OTHER's turn
  tunnel_abuse.py unread RELAY PKI CERT OTHER HOST PID KIB  streams of a source that CERT does not read, until
                                                   the relay PID has grown by more than KIB; OTHER's turn
  tunnel_abuse.py crowd  RELAY PKI HOST OPERATOR   connections of one host, of one operator that stay
  tunnel_abuse.py loris  RELAY PKI CERT            slow handshakes and heads
  tunnel_abuse.py liar   RELAY PKI CERT            an agent that says wrong things; until stdin ends
  tunnel_abuse.py babbler RELAY PKI CERT           an agent that tells too much, comes again and again,
                                                   and does not answer; until stdin ends

RELAY is HOST:PORT, PKI a folder of perfleet-pki, CERT the name of a certificate there.
"""
import json
import os
import select
import signal
import socket
import ssl
import struct
import sys
import time

from relay_peer import PATTERN

LIMIT_S = 60
UNREAD = ("ping", "refused", "settings")  # the floods of a peer who reads nothing
HELD_S = 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
DETACH = 0xA
STATUS = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
DIGITS = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5",
          "011100": "6", "011101": "7", "011110": "8", "011111": "9"}


def claim(words, holds, seen=""):
    print(("ok - " if holds else "not ok - ") + words + ("" if holds else "  # saw %s" % (seen,)), flush=True)


def tls(relay, pki, cert, alpn):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(os.path.join(pki, "ca.pem"))
    if cert != "none":
        context.load_cert_chain(os.path.join(pki, cert + ".pem"), os.path.join(pki, cert + ".key"))
    if alpn != "none":
        context.set_alpn_protocols(alpn.split(","))
    host, _, port = relay.rpartition(":")
    sock = socket.create_connection((host, int(port)), LIMIT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock)


def literal(name, value):
    """A field without indexing and without Huffman."""
    out = b"\0"
    for text in (name, value):
        text = text if isinstance(text, bytes) else text.encode()
        if len(text) < 127:
            out += bytes([len(text)])
        else:
            rest, out = len(text) - 127, out + b"\x7f"
            while rest >= 128:
                out, rest = out + bytes([rest & 127 | 128]), rest >> 7
            out += bytes([rest])
        out += text
    return out


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def status_of(block):
    while block and block[0] & 0xE0 == 0x20:  # sizes of the dynamic table
        block = block[1:]
    if block and block[0] in STATUS:
        return STATUS[block[0]]
    if len(block) < 3:
        return 0
    text = block[2:2 + (block[1] & 127)]
    if not block[1] & 128:
        return int(text)
    bits = "".join("{:08b}".format(byte) for byte in text)
    out = ""
    while len(out) < 3:
        size = 5 if bits[:5] in DIGITS else 6
        out, bits = out + DIGITS[bits[:size]], bits[size:]
    return int(out)


class Peer:
    """One HTTP/2 connection; `is_answering`: an agent's, with the roles reversed."""

    def __init__(self, relay, pki, cert, alpn="h2", quiet=False):
        self.sock = tls(relay, pki, cert, alpn)
        self.sock.settimeout(LIMIT_S)
        self.pending = b""
        self.is_closed = False
        self.next_id = 1
        self.frames = []
        if alpn == "h2" and not quiet:
            self.send(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0)))

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            self.is_closed = True
        return not self.is_closed

    def read(self, timeout_s=LIMIT_S):
        """The next frame as (kind, flags, stream, payload); None: closed, or nothing in time."""
        end = time.monotonic() + timeout_s
        while len(self.pending) < 9 or len(self.pending) < 9 + int.from_bytes(self.pending[:3], "big"):
            left = end - time.monotonic()
            if left <= 0:
                return None
            if not self.sock.pending() and not select.select([self.sock], [], [], left)[0]:
                return None
            try:
                data = self.sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                self.is_closed = True
                return None
            self.pending += data
        size = int.from_bytes(self.pending[:3], "big")
        kind, flags = self.pending[3], self.pending[4]
        stream = struct.unpack(">I", self.pending[5:9])[0]
        payload, self.pending = self.pending[9:9 + size], self.pending[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        if kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        return kind, flags, stream, payload

    def begin(self, method, path, fields=(), is_end=True, authority=b"x", protocol="perfetto-consumer"):
        block = literal(":method", method) + literal(":scheme", "https") + literal(
            ":authority", authority) + literal(":path", path)
        if method == "CONNECT":
            block += literal(":protocol", protocol)
        for name, value in fields:
            block += literal(name, value)
        stream, self.next_id = self.next_id, self.next_id + 2
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if is_end else 0), stream, block))
        return stream

    def answer(self, stream, timeout_s=LIMIT_S):
        """The status of a stream; "reset", "closed", or "nothing"."""
        end = time.monotonic() + timeout_s
        while True:
            got = self.read(max(0.01, end - time.monotonic()))
            if got is None:
                return "closed" if self.is_closed else "nothing"
            if got[0] == HEADERS and got[2] == stream:
                return status_of(got[3])
            if got[0] == RST and got[2] == stream:
                return "reset"
            if got[0] == GOAWAY:
                return "closed"

    def ask(self, method, path, fields=()):
        return self.answer(self.begin(method, path, fields))

    def connect(self, host, fields=()):
        stream = self.begin("CONNECT", "/v1/hosts/%s/consumer" % host, fields, False)
        return stream, self.answer(stream)

    def is_ended(self, timeout_s=LIMIT_S):
        """The relay says goodbye, or closes, within that time."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and not self.is_closed:
            got = self.read(max(0.01, end - time.monotonic()))
            if got is not None and got[0] == GOAWAY:
                return True
        return self.is_closed


def knock(relay, pki, cert, alpn):
    """Nobody answers who should not come in."""
    got = b""
    try:
        sock = tls(relay, pki, cert, alpn)
        sock.settimeout(3)
        if alpn == "h2":
            peer_bytes = PREFACE + frame(SETTINGS, 0, 0) + frame(
                HEADERS, END_HEADERS | END_STREAM, 1, literal(":method", "GET") + literal(
                    ":scheme", "https") + literal(":authority", "x") + literal(":path", "/v1/hosts"))
        else:
            peer_bytes = b"\x12\0\0\0\x10\x01\x1a\x0e\x0a\x0cConsumerPort"
        sock.sendall(peer_bytes)
        while True:
            data = sock.recv(65536)
            if not data:
                break
            got += data
    except (OSError, ssl.SSLError):
        pass
    claim("%s with ALPN %s gets no byte" % (cert, alpn), got == b"", got[:80])


def names(relay, pki, cert):
    paths = ["/v1/hosts/..", "/v1/hosts/../../etc/passwd", "/v1/hosts/%2e%2e/clock", "/v1/hosts/a%2fb/clock",
             "/v1/hosts/a/../b/clock", "/v1/hosts//clock", "/v1/hosts/./clock", "/v1/hosts/-a/clock",
             "/v1/hosts/a b/clock", b"/v1/hosts/a\nb/clock", b"/v1/hosts/a\0/clock", b"/v1/hosts/\x1b[2J/clock",
             b"/v1/hosts/\xff\xfe/clock", "/v1/hosts/" + "x" * 64 + "/clock", "/v1/hosts/" + "x" * 3000,
             "/v1/hosts/one/streams/..", "/v1/hosts/one/streams/" + "0" * 31 + "/", "/v1/hosts?x=1",
             "/v1/hosts/one/clock?x", "/v1/hosts/one/clock#x", "//v1/hosts", "/v1//hosts", "v1/hosts", "*", "",
             "http://x/v1/hosts"]
    for path in paths:
        got = Peer(relay, pki, cert).ask("GET", path)
        claim("the path %s is nobody's" % ascii(path)[:40], got in (400, 404, 405, 403, 431, "reset", "closed"), got)
    for name, value in ((b"perfleet-stream", b"../../x"), (b"perfleet-stream", b"A" * 32),
                        (b"perfleet-received", b"-1"), (b"perfleet-received", b"99999999999999999999"),
                        (b"perfleet-window", b"0x10"), (b"perfleet-ttl-ms", b"1e9")):
        fields = [(name, value)] if name == b"perfleet-stream" else [
            ("perfleet-stream", "0" * 32), (name, value)]
        got = Peer(relay, pki, cert).connect("one", fields)[1]
        claim("%s: %s is refused" % (name.decode(), value.decode()), got in (400, 409, 410, "reset"), got)


def steal(relay, pki, cert, host, stream_id):
    """Another's stream, its name known."""
    for words, fields in (
            ("resumed", [("perfleet-received", "0"), ("perfleet-credited", "0")]),
            ("begun again", []),
            ("resumed in the owner's name", [("perfleet-received", "0"), ("perfleet-credited", "0"),
                                             ("perfleet-operator", "me")])):
        got = Peer(relay, pki, cert).connect(
            host, [("perfleet-stream", stream_id), ("perfleet-window", "100000")] + fields)[1]
        claim("another's stream is not %s" % words, got == 409, got)
    got = Peer(relay, pki, cert).connect(host, [
        ("perfleet-stream", "f" * 32), ("perfleet-window", "100000"), ("perfleet-received", "0"),
        ("perfleet-credited", "0")])[1]
    claim("a guessed one is not there", got == 410, got)
    got = Peer(relay, pki, cert).ask("DELETE", "/v1/hosts/%s/streams/%s" % (host, stream_id),
                                     [("perfleet-operator", "me")])
    claim("nor is another's killed", got == 410, got)
    got = Peer(relay, pki, cert).connect(host, [("perfleet-role", "not a role")])[1]
    claim("a role of one's own making is not passed on", got == 200, got)


# ---- floods: each says whether the relay ends what it should end ----

def flood_rapid_reset(peer, host):
    for _ in range(40):
        out = b""
        for _ in range(100):
            out += frame(HEADERS, END_HEADERS | END_STREAM, peer.next_id, literal(":method", "GET") + literal(
                ":scheme", "https") + literal(":authority", "x") + literal(":path", "/v1/hosts"))
            out += frame(RST, 0, peer.next_id, struct.pack(">I", 8))
            peer.next_id += 2
        if not peer.send(out):
            break
    return peer.is_ended()


def flood_connect_reset(peer, host):
    for _ in range(3000):
        stream = peer.begin("CONNECT", "/v1/hosts/%s/consumer" % host, is_end=False)
        if not peer.send(frame(RST, 0, stream, struct.pack(">I", 8))):
            break
    return peer.is_ended()


def flood_giant_field(peer, host):
    return peer.ask("GET", "/v1/hosts", [("x", "y" * 15000)]) in (431, "reset", "closed")


def flood_many_fields(peer, host):
    return peer.ask("GET", "/v1/hosts", [("x%d" % i, "y") for i in range(500)]) in (431, "reset", "closed")


def flood_hpack_bomb(peer, host):
    """One large field in the dynamic table, repeated by a byte each."""
    block = literal(":method", "GET") + literal(":scheme", "https") + literal(
        ":authority", "x") + literal(":path", "/v1/hosts")
    block += b"\x40" + literal("bomb", "b" * 3900)[1:] + b"\xbe" * 4000
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
    return peer.answer(1) in (431, "reset", "closed")


def flood_continuation(peer, host):
    """A head that never ends."""
    peer.send(frame(HEADERS, END_STREAM, 1, literal(":method", "GET")))
    for _ in range(3000):
        if not peer.send(frame(CONTINUATION, 0, 1, literal("x", "y" * 1000))):
            break
    return peer.is_ended()


def flood_empty_continuation(peer, host):
    peer.send(frame(HEADERS, END_STREAM, 1, literal(":method", "GET")))
    for _ in range(200):
        if not peer.send(frame(CONTINUATION, 0, 1) * 1000):
            break
    return peer.is_ended()


def flood_unread(peer, make):
    """Sends on and reads nothing: what is read would let the relay send what waits. True: the relay has
    ended the connection (it throws away what comes until its goodbye is sent, or given up), or takes no
    more for HELD_S."""
    peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what waits is to wait at the relay
    peer.sock.setblocking(False)
    sent, data, begin = 0, memoryview(b""), time.monotonic()
    moved = begin
    while time.monotonic() - begin < 2 * LIMIT_S:
        data = data or memoryview(make())
        try:
            size = peer.sock.send(data)
            sent, data, moved = sent + size, data[size:], time.monotonic()
        except (ssl.SSLWantWriteError, BlockingIOError):
            if time.monotonic() - moved > HELD_S:
                return True
            select.select([], [peer.sock], [], 1)
        except OSError:
            return True
    return "%d bytes were taken and answered for a peer who reads nothing" % sent


def flood_ping(peer, host):
    """Pings whose answers are never read."""
    return flood_unread(peer, lambda: frame(PING, 0, 0, b"12345678") * 200)


def flood_refused(peer, host):
    """Streams above the bound from one who reads nothing, and acknowledges no settings."""
    block = b"\x82\x87\x84\x41\x01x"  # GET https://x/

    def make():
        first, peer.next_id = peer.next_id, peer.next_id + 2000
        return b"".join(frame(HEADERS, END_HEADERS, i, block) for i in range(first, peer.next_id, 2))
    return flood_unread(peer, make)


def flood_settings(peer, host):
    return flood_unread(peer, lambda: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 200)


def flood_empty_data(peer, host):
    stream, status = peer.connect(host)
    for _ in range(100):
        if status != 200 or not peer.send(frame(DATA, 0, stream) * 1000):
            break
    return peer.is_ended()


def flood_zero_window(peer, host):
    peer.connect(host)
    peer.send(frame(WINDOW, 0, 0, struct.pack(">I", 0)))
    return peer.is_ended()


def flood_window_overflow(peer, host):
    for _ in range(3):
        peer.send(frame(WINDOW, 0, 0, struct.pack(">I", 2**31 - 1)))
    return peer.is_ended()


def flood_beyond_window(peer, host):
    """More than the window of the stream, which the echoing service gives back late."""
    stream, _ = peer.connect(host)
    for _ in range(200):
        if not peer.send(frame(DATA, 0, stream, b"x" * 16000)):
            break
    got = peer.answer(stream)
    return got in ("reset", "closed")


def flood_invented_credit(peer, host):
    """Credit for bytes that were never sent."""
    stream, _ = peer.connect(host, [("perfleet-stream", "%032x" % int(time.time() * 1e6)),
                                    ("perfleet-window", "65536")])
    for _ in range(64):
        peer.send(frame(WINDOW, 0, stream, struct.pack(">I", 1 << 20)))
    return peer.answer(stream) in ("reset", "closed")


def flood_padding(peer, host):
    stream, _ = peer.connect(host)
    peer.send(frame(DATA, PADDED, stream, b"\x10" + b"x" * 8 + b"\0" * 16))
    return peer.answer(stream) in ("reset", "closed")


def flood_many_streams(peer, host):
    """400 at a time: those above the bounds are refused, by the connection, the relay or the host (each
    has its own, and which is met first is a matter of time), the rest is served."""
    streams = [peer.begin("CONNECT", "/v1/hosts/%s/consumer" % host, is_end=False) for _ in range(400)]
    answers = {}
    end = time.monotonic() + LIMIT_S
    while len(answers) < len(streams) and time.monotonic() < end and not peer.is_closed:
        got = peer.read(1)
        if got is not None and got[0] == HEADERS:
            answers.setdefault(got[2], status_of(got[3]))
        elif got is not None and got[0] == RST:
            answers.setdefault(got[2], "reset")
    counts = {what: list(answers.values()).count(what) for what in set(answers.values())}
    refused = sum(counts.get(how, 0) for how in ("reset", 429, 503))
    return 0 < counts.get(200, 0) <= 64 and counts[200] + refused == len(streams) or counts


def flood_half_heads(peer, host):
    """A request on an even stream, a lower stream, a push, a frame too large: protocol errors."""
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 2, literal(":method", "GET")))
    return peer.is_ended()


def flood_push(peer, host):
    peer.send(frame(PUSH, END_HEADERS, 1, struct.pack(">I", 2) + literal(":method", "GET")))
    return peer.is_ended()


def flood_oversized_frame(peer, host):
    peer.send(frame(DATA, 0, 1, b"x" * 70000))
    return peer.is_ended()


def flood_garbage(peer, host):
    peer.send(os.urandom(50000))
    return peer.is_ended()


def flood_smuggling(peer, host):
    """Heads that one reader could take for two, or for another's."""
    block = literal(":method", "GET") + literal(":scheme", "https") + literal(":path", "/v1/hosts")
    got = []
    for stream, more in ((1, literal(":path", "/v1/hosts/one")), (3, literal("X-Upper", "y")),
                         (5, literal("connection", "keep-alive")), (7, literal("transfer-encoding", "chunked")),
                         (9, literal("a b", "y")), (11, literal("x", b"y\r\nz: 1"))):
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block + literal(":authority", "x") + more))
        got.append(peer.answer(stream))
    return all(what in (400, 404, "reset", "closed") for what in got) or got


def flood(relay, pki, cert, what, host):
    peer = Peer(relay, pki, cert)
    holds = globals()["flood_" + what](peer, host)
    claim("%s is ended%s" % (what.replace("_", " "), " or held back" if what in UNREAD else ""), holds is True,
          holds)


def hog(relay, pki, cert, other, host, agent):
    """What one operator asks of an agent that stands still for a while, and what is left to another."""
    def ask_all(peer, path, count):
        """Asked, and refused by the relay: what it lets through is not answered for now."""
        asked = {peer.begin("GET", path) for _ in range(count)}
        last = peer.begin("GET", "/healthz")
        refused = {}
        while last not in refused:
            got = peer.read()
            if got is None:
                return None
            if got[0] == HEADERS:
                refused[got[2]] = status_of(got[3])
        return {stream: refused.get(stream, "waits") for stream in asked}

    def ask_and_cancel(peer):
        """More than the way to the host holds, taken back when it is on its way."""
        path = "/v1/hosts/%s/alarms/x" % host
        for _ in range(8):
            streams = [peer.begin("PUT", path, [("perfleet-triggers", os.urandom(1700).hex())]) for _ in range(110)]
            peer.ask("GET", "/healthz")
            peer.send(b"".join(frame(RST, 0, stream, struct.pack(">I", 8)) for stream in streams))
        return peer.ask("GET", "/healthz")

    path = "/v1/hosts/%s/clock" % host
    cancelling = [Peer(relay, pki, cert) for _ in range(6)]
    peers = [Peer(relay, pki, cert) for _ in range(3)]
    guest = Peer(relay, pki, other)
    guest.ask("GET", path)
    os.kill(int(agent), signal.SIGSTOP)
    try:
        cancelled = [ask_and_cancel(peer) for peer in cancelling]
        got = ask_all(guest, path, 1)
    finally:
        os.kill(int(agent), signal.SIGCONT)
    claim("another's question waits while an operator asks and cancels",
          cancelled == [200] * 6 and got is not None and list(got.values()) == ["waits"], (cancelled, got))
    claim("and is answered, too", got is not None and guest.answer(min(got)) == 200)
    os.kill(int(agent), signal.SIGSTOP)
    try:
        answers = [what for peer in peers for what in (ask_all(peer, path, 200) or {0: "closed"}).values()]
        got = ask_all(guest, path, 1)
    finally:
        os.kill(int(agent), signal.SIGCONT)
    counts = {what: answers.count(what) for what in set(answers)}
    claim("of an operator's 600 questions to a host that stands still some wait, the others are refused",
          0 < counts.get("waits", 0) <= 192 and counts.get(429, 0) + counts["waits"] == 600, counts)
    claim("another's waits, too", got is not None and list(got.values()) == ["waits"], got)
    claim("and is answered when the host goes on", got is not None and guest.answer(min(got)) == 200)


def rest(relay, pki, cert, other, host):
    """Streams that are over but for bytes that their operator does not read are his."""
    peer, guest = Peer(relay, pki, cert), Peer(relay, pki, other)
    streams, answers = [], []
    for number in range(70):
        stream, answer = peer.connect(host, [("perfleet-stream", "%032x" % number), ("perfleet-window", "1")])
        answers.append(answer)
        if answer != 200:
            continue
        streams.append(stream)
        peer.send(frame(DATA, END_STREAM, stream, b"hello"))
        # The echo's first byte: the host, which has the end, too, keeps the others.
        while not peer.is_closed and (peer.read() or (0,))[0] != DATA:
            pass
    got = guest.connect(host)
    claim("an operator who reads none of his 70 has 48 at most at that host",
          set(answers) == {200, 429} and len(streams) <= 48, answers)
    claim("and another has room there", got[1] == 200, got)
    guest.send(frame(RST, 0, got[0], struct.pack(">I", 8)))
    for stream in streams:
        peer.send(frame(RST, 0, stream, struct.pack(">I", 8)))
    peer.ask("GET", "/v1/hosts/%s/clock" % host)


def rss_kib(pid):
    with open("/proc/%s/status" % pid) as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def settled_rss_kib(pid):
    """Once it has not changed for a second."""
    last, since = rss_kib(pid), time.monotonic()
    end = since + LIMIT_S
    while time.monotonic() - since < 1 and time.monotonic() < end:
        time.sleep(0.05)
        if rss_kib(pid) != last:
            last, since = rss_kib(pid), time.monotonic()
    return last


def take_data(peer, got, is_done):
    """What comes of each stream, and which were reset."""
    resets = {}
    while not is_done(resets):
        frame_got = peer.read(5)
        if frame_got is None:
            break
        kind, _, stream, payload = frame_got
        if kind == DATA:
            got[stream] = got.get(stream, b"") + payload
        elif kind == RST:
            resets[stream] = struct.unpack(">I", payload)[0]
    return resets


def unread(relay, pki, cert, other, host, pid, kib):
    """What waits at the relay for an operator who does not read has a bound; nothing of it is lost."""
    path, source = "/v1/hosts/%s/streams/" % host, {}
    before = rss_kib(pid)
    peer, guest = Peer(relay, pki, cert), Peer(relay, pki, other)
    names = ["%031xa" % number for number in range(46)]
    answers, got = {}, {}
    for name in names:
        answers[peer.begin("CONNECT", "/v1/hosts/%s/consumer" % host, [
            ("perfleet-stream", name), ("perfleet-window", str(2 << 20))], False)] = name
    grown = settled_rss_kib(pid) - before
    print("# grown by %d KiB" % grown)
    claim("what one operator does not read of 46 streams takes his share at the relay", grown <= int(kib),
          "%d KiB" % grown)
    stream, status = guest.connect(host)
    claim("another's stream begins", status == 200, status)
    take_data(guest, source, lambda _: len(source.get(stream, b"")) >= 60000)
    claim("and its bytes come", len(source.get(stream, b"")) >= 60000, len(source.get(stream, b"")))
    peer.send(frame(WINDOW, 0, 0, struct.pack(">I", 64 << 20)))
    resets = take_data(peer, got, lambda _: False)
    peer.sock.close()
    lost = [s for s, code in resets.items() if code == DETACH]
    claim("some of his streams were detached", len(lost) > 0, resets)
    peer = Peer(relay, pki, cert)
    one = lost[0] if lost else min(answers)
    for s, name in answers.items():
        if s != one:
            peer.ask("DELETE", path + name)
    begun = len(got.get(one, b""))
    resumed, status = peer.connect(host, [
        ("perfleet-stream", answers[one]), ("perfleet-window", str(2 << 20)),
        ("perfleet-received", str(begun)), ("perfleet-credited", "0")])
    rest_of_it = {}
    take_data(peer, rest_of_it, lambda _: len(rest_of_it.get(resumed, b"")) >= 60000)
    data = rest_of_it.get(resumed, b"")
    claim("and go on where they were", len(data) >= 60000 and (PATTERN * 2)[begun:begun + len(data)] == data,
          (status, len(data)))
    peer.ask("DELETE", path + answers[one])


def crowd(relay, pki, host, operator):
    """Whoever keeps more connections than he may has them closed, and the newest of a host is the one that
    is asked."""
    peers = [agent(relay, pki, host) for _ in range(12)]
    end = time.monotonic() + LIMIT_S
    while sum(not peer.is_closed for peer in peers) > 4 and time.monotonic() < end:
        for peer in peers:
            if not peer.is_closed:
                peer.read(0.01)
    left = []
    for number, peer in enumerate(peers):
        if peer.is_closed:
            continue
        peer.send(frame(PING, 0, 0, b"are here"))
        while not peer.is_closed and (peer.read() or (0, 0, 0, b""))[::3] != (PING, b"are here"):
            pass
        left += [] if peer.is_closed else [number]
    claim("a host's 12 connections that will not go are 4, the newest", left == [8, 9, 10, 11], left)
    socks, served = [], 0
    for _ in range(70):
        sock = tls(relay, pki, operator, "perfetto-consumer/1")
        sock.settimeout(LIMIT_S)
        socks.append(sock)
        try:
            sock.sendall(b"anybody?")
            served += sock.recv(100) != b""
        except OSError:
            pass
    claim("of an operator's 70 in direct mode 64 are served", served == 64, served)


def loris(relay, pki, cert):
    """400 handshakes a byte at a time, and 30 heads that never end."""
    host, _, port = relay.rpartition(":")
    hello = bytes.fromhex("16030102000100")
    slow = []
    for _ in range(400):
        sock = socket.create_connection((host, int(port)), LIMIT_S)
        sock.sendall(hello[:1])
        slow.append(sock)
    heads = []
    for i in range(30):
        peer = Peer(relay, pki, cert, quiet=i % 2 == 0)
        peer.send(PREFACE[:5] if i % 2 == 0 else frame(HEADERS, 0, 1, literal(":method", "GET"))[:-3])
        heads.append(peer)
    begin = time.monotonic()
    print("waiting", flush=True)
    for byte in hello[1:]:
        time.sleep(0.4)
        for sock in slow:
            try:
                sock.sendall(bytes([byte]))
            except OSError:
                pass
    is_shut = 0
    for sock in slow:
        sock.settimeout(max(0.1, begin + LIMIT_S - time.monotonic()))
        try:
            while sock.recv(100):
                pass
            is_shut += 1
        except ConnectionError:
            is_shut += 1
        except OSError:
            pass
    claim("handshakes that take their time are ended", is_shut == len(slow), is_shut)
    sys.stdin.read()


# Huffman's codes of the letters that heads to an agent have.
CODES = {**{letter: "{:05b}".format(i) for i, letter in enumerate("012aceiost")},
         **{letter: "{:06b}".format(22 + i) for i, letter in enumerate("-./3456789")},
         **{letter: "{:06b}".format(35 + i) for i, letter in enumerate("bdfghlmnpru")},
         **{letter: "{:07b}".format(116 + i) for i, letter in enumerate("jkqvwxyz")}, ":": "1011100"}


def asks_for(block, path):
    """A GET whose path begins so (nghttp2 spells the method first)."""
    bits = "".join("{:08b}".format(byte) for byte in block)
    at = bits.find("".join(CODES[letter] for letter in path))
    while at >= 0 and at % 8 != 0:
        at = bits.find("".join(CODES[letter] for letter in path), at + 1)
    return at >= 0 and block.lstrip(b"\x20")[:1] == b"\x82"


def field_of(block, name):
    """The value of a field that nghttp2 spelled without its table, in Huffman's code; None: it is not there."""
    bits = "".join(CODES[letter] for letter in name)
    bits += "1" * (-len(bits) % 8)
    at = block.find(int(bits, 2).to_bytes(len(bits) // 8, "big"))
    if at < 0:
        return None
    at += len(bits) // 8
    size, text = block[at] & 127, block[at + 1:at + 1 + (block[at] & 127)]
    if not block[at] & 128:
        return text.decode()
    assert size < 127
    bits, value = "".join("{:08b}".format(byte) for byte in text), ""
    while bits.strip("1"):
        letter = next(letter for letter, code in CODES.items() if bits.startswith(code))
        value, bits = value + letter, bits[len(CODES[letter]):]
    return value


def agent(relay, pki, cert, alpn="pfl-agent/1"):
    """A connection of an agent's, or a collector's, ready to be asked; without a table of heads."""
    peer = Peer(relay, pki, cert, alpn)
    preface = b""
    while len(preface) < len(PREFACE):
        got = peer.sock.recv(len(PREFACE) - len(preface))
        if not got:
            sys.exit("the relay closed the connection")
        preface += got
    peer.send(frame(SETTINGS, 0, 0, struct.pack(">HIHI", 8, 1, 1, 0)))
    return peer


def answer_all(peer, answers, is_done):
    """Answers each GET of a path of `answers` with its (body, whether it ends), and nothing else, until
    is_done(path), or the other side ends."""
    while not peer.is_closed:
        got = peer.read(0.2)
        path = next((p for p in answers if got and got[0] == HEADERS and asks_for(got[3], p)), "")
        if path:
            body, is_end = answers[path]
            peer.send(frame(HEADERS, END_HEADERS, got[2], b"\x88"))
            for at in range(0, len(body), 16000):
                peer.send(frame(DATA, 0, got[2], body[at:at + 16000]))
            if is_end:
                peer.send(frame(DATA, END_STREAM, got[2]))
        if is_done(path):
            return


def babbler(relay, pki, cert):
    """Six connections, on each of which 600 requests and 30 triggers are reported at once; then one that
    answers without a list, and then with control characters, and what is to be set not at all."""
    lines = []
    for i in range(600):
        lines.append({"kind": "request", "operator": "guest", "method": "Flush"})
        if i % 20 == 0:
            lines.append({"kind": "trigger", "operator": "guest", "session": "g-%d" % i, "trigger": "boom"})
    lines.append({"kind": "lost", "count": 2**63 - 1})
    lines = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    alarms = {"alarms": [{"session": "g-ring\x1b[2J", "state": "\x1b]0;owned\x07", "trigger": "\x1b[1m",
                          "host": "\x1b[1m", "why": "\x1b[1m"}]}
    answers = {"/v1/hello": (b"{}", True), "/v1/events": (lines, False),
               "/v1/alarms": (json.dumps(alarms).encode(), True)}
    for _ in range(6):
        peer = agent(relay, pki, cert)
        answer_all(peer, answers, lambda path: path == "/v1/events")
        peer.send(frame(PING, 0, 0, b"12345678"))  # its answer says that all before it was taken
        while not peer.is_closed and (peer.read() or (0,))[0] != PING:
            pass
        peer.sock.close()
    peer = agent(relay, pki, cert)
    answer_all(peer, answers, lambda path: path == "/v1/hello")
    print("babbled", flush=True)
    answer_all(peer, {**answers, "/v1/alarms": (b"[]", True)}, lambda path: path == "/v1/alarms")
    answer_all(peer, answers, lambda path: select.select([sys.stdin], [], [], 0)[0])


def liar(relay, pki, cert):
    """An agent that claims to be another host, in names and labels that are none."""
    hello = {"name": "one", "labels": {"role": "web\n", "../../etc": "x", "ok": "yes", "\x1b[2J": "x",
                                       "long": "x" * 64, "name": "one"},
             "facts": {"hostname": "\x1b]0;owned\x07", "kernel": "k" * 500}, "version": "\n", "clock": {},
             "is_connected": True, "streams": 99, "address": "1.2.3.4:5"}
    peer = Peer(relay, pki, cert, "pfl-agent/1")
    peer.pending = b""
    preface = b""
    while len(preface) < len(PREFACE):
        preface += peer.sock.recv(len(PREFACE) - len(preface))
    peer.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 8, 1)))
    body = json.dumps(hello).encode()
    is_told = False
    while True:
        got = peer.read(1)
        if peer.is_closed or select.select([sys.stdin], [], [], 0)[0]:
            return
        if got is None or got[0] != HEADERS:
            continue
        # Whatever is asked, it answers with its lies.
        peer.send(frame(HEADERS, END_HEADERS, got[2], b"\x88") + frame(DATA, END_STREAM, got[2], body))
        if not is_told:
            print("lied", flush=True)
        is_told = True


if __name__ == "__main__":
    {"knock": knock, "names": names, "steal": steal, "flood": flood, "hog": hog, "rest": rest, "unread": unread, "crowd": crowd, "loris": loris,
     "liar": liar, "babbler": babbler}[sys.argv[1]](*sys.argv[2:])
