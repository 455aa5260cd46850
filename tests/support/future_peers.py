#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of a version that does not exist yet: they say all that this one says, and more that it cannot
know. They must be served as if they had not (docs/protocol-tunnel.md, section 10). TAP lines.

  future_peers.py agent     RELAY PKI CERT         answers, and echoes streams, until stdin ends
  future_peers.py operator  RELAY PKI CERT HOST    what the relay and HOST's agent answer it
"""
import json
import select
import struct
import sys

sys.dont_write_bytecode = True
from tunnel_abuse import (ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST, SETTINGS, Peer,  # noqa: E402
                          claim, frame, literal)

UNKNOWN_FRAME, PRIORITY_UPDATE, ALTSVC = 0xBB, 0x10, 0x0A
MORE_FIELDS = [("perfleet-future", "yes"), ("x-unknown", "1")]


def strange_settings(is_answering):
    mine = struct.pack(">HI", 8, 1) if is_answering else struct.pack(">HI", 1, 0)
    return frame(SETTINGS, 0, 0, mine + struct.pack(">HI", 0x7777, 5) + struct.pack(">HI", 9, 1))


def strange_frames():
    return (frame(UNKNOWN_FRAME, 0xFF, 0, b"what is this") + frame(UNKNOWN_FRAME, 0, 1) +
            frame(PRIORITY_UPDATE, 0, 0, struct.pack(">I", 1) + b"u=1") + frame(ALTSVC, 0, 0, b"\0\1xh2=\":1\""))


HELLO = {"protocol": 2, "version": "99.0.0-next", "labels": {"role": "next"},
         "facts": {"hostname": "next", "arch": "riscv128", "cpus": 4096, "planet": "mars"},
         "capabilities": ["a", {"b": None}], "session": {"id": 1}}


def agent(relay, pki, cert):
    peer = Peer(relay, pki, cert, "pfl-agent/2,pfl-agent/1")
    claim("an agent that would rather speak version 2 is answered in version 1",
          peer.sock.selected_alpn_protocol() == "pfl-agent/1", peer.sock.selected_alpn_protocol())
    preface = b""
    while len(preface) < len(PREFACE):
        preface += peer.sock.recv(len(PREFACE) - len(preface))
    peer.send(strange_settings(True) + strange_frames())
    head = b"\x88" + b"".join(literal(*field) for field in MORE_FIELDS)
    while not peer.is_closed and not select.select([sys.stdin], [], [], 0)[0]:
        got = peer.read(0.2)
        if got is None:
            continue
        kind, flags, stream, payload = got
        if kind == HEADERS and flags & END_STREAM:  # a GET
            body = b'{"receive_ns": 1, "send_ns": 2, "accuracy_ns": 3}' if b"clock" in payload else json.dumps(
                HELLO).encode()
            peer.send(frame(HEADERS, END_HEADERS, stream, head) + frame(DATA, END_STREAM, stream, body))
        elif kind == HEADERS:
            peer.send(strange_frames() + frame(HEADERS, END_HEADERS, stream, head))
        elif kind == DATA and payload:
            peer.send(frame(8, 0, 0, struct.pack(">I", len(payload))) +
                      frame(8, 0, stream, struct.pack(">I", len(payload))) + frame(DATA, 0, stream, payload))


def echo_of(peer, stream, data):
    """What comes back on the stream for those bytes."""
    peer.send(frame(DATA, 0, stream, data))
    got = b""
    while len(got) < len(data):
        one = peer.read()
        if one is None or (one[0] == RST and one[2] == stream):
            break
        if one[0] == DATA and one[2] == stream:
            got += one[3]
    return got


def operator(relay, pki, cert, host):
    peer = Peer(relay, pki, cert, "h9,h2", quiet=True)
    claim("an operator that would rather speak h9 is answered in h2",
          peer.sock.selected_alpn_protocol() == "h2", peer.sock.selected_alpn_protocol())
    peer.send(PREFACE + strange_settings(False) + strange_frames())
    got = peer.ask("GET", "/v1/hosts", MORE_FIELDS)
    claim("strange settings, frames and fields: the inventory is answered", got == 200, got)
    peer.send(strange_frames())
    got = peer.ask("GET", "/v2/hosts", MORE_FIELDS)
    claim("a path of another version is 404, and the connection goes on", got == 404, got)
    got = peer.ask("GET", f"/v1/hosts/{host}/clock", MORE_FIELDS)
    claim(f"the clock of {host}", got == 200, got)
    stream, got = peer.connect(host, MORE_FIELDS + [("perfleet-accept-encoding", "lz9, br")])
    claim(f"a stream to {host}, with fields and encodings that nobody knows", got == 200, got)
    if host == "future":
        peer.send(strange_frames())
        data = b"bytes of a protocol that the relay does not look into" * 100
        claim("carries bytes there and back", echo_of(peer, stream, data) == data)


if __name__ == "__main__":
    {"agent": agent, "operator": operator}[sys.argv[1]](*sys.argv[2:])
