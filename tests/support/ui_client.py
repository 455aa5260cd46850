#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Perfetto UI's recording page does, with a WebSocket library that is not ours (websockets).

Usage: ui_client.py query URL ORIGIN             prints the service's version
       ui_client.py record URL ORIGIN MS OUT     records com.example.load, writes the trace
       ui_client.py page URL ORIGIN UNTIL OUT [name=NAME] [stream=BYTES] [mb=MIB]
                                                 records until UNTIL (ms of recording, or a file that is
                                                 there), as the page does: usage meanwhile, flush, stop,
                                                 read
       ui_client.py snapshot URL ORIGIN NAME OUT copies the session NAME as it is now
       ui_client.py bare URL ORIGIN              a config without data sources: why it is refused
       ui_client.py leave URL ORIGIN UNTIL       begins to record and goes without a word
       ui_client.py many URL ORIGIN N            N recordings at a time: how many began, and why not
       ui_client.py crowd URL ORIGIN N           N connections at a time: how many came in
       ui_client.py status PORT PATH HOST ORIGIN [UID]  the status of an opening request by hand, as
                                                 that user; HOST or ORIGIN "-": without
       ui_client.py halves PORT N [UID]          N connections that never finish their request, as that
                                                 user; "ready"; whichever is ended comes again
       ui_client.py half PORT                    one of them: exits 0 when it is ended
       ui_client.py abuse PORT                   what is no WebSocket: exits 0 when it is ended"""
import os
import resource
import select
import socket
import sys
import time

from service_peers import Consumer, dict_of_lists, field, fields

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class WebSocket:
    """As much of a socket as a Consumer needs, over binary messages."""

    def __init__(self, url, origin):
        import asyncio
        import websockets
        self.loop = asyncio.new_event_loop()
        self.wait = lambda step: self.loop.run_until_complete(asyncio.wait_for(step, 60))
        self.lost = websockets.ConnectionClosed

        async def connect():
            return await websockets.connect(url, origin=origin, max_size=None)
        self.socket = self.wait(connect())
        self.ready, writer = os.pipe()  # readable for ever: recv waits by itself
        os.write(writer, b"x")

    def sendall(self, data):
        self.wait(self.socket.send(data))

    def recvmsg(self, _size, _anc):
        try:
            return self.wait(self.socket.recv()), [], 0, None
        except self.lost:
            return b"", [], 0, None

    def fileno(self):
        return self.ready

    def close(self):
        self.wait(self.socket.close())


def query(consumer):
    answer = consumer.call("QueryServiceState", b"")
    state = dict_of_lists(dict(fields(answer[1]))[1])
    print("version=" + state[5][0].decode())


def record(consumer, ms, out):
    source = field(1, field(1, "com.example.load"))
    why = consumer.enable(field(1, field(1, 65536)) + field(2, source) + field(3, ms))
    if why:
        sys.exit(why)
    while not consumer.said:
        if not consumer.dispatch():
            sys.exit("closed")
    with open(out, "wb") as file:
        for packet in consumer.packets():
            file.write(field(1, packet))


def begin_page(consumer, *wishes):
    """EnableTracing as the page sends it, without a duration."""
    wish = dict(w.split("=", 1) for w in wishes)
    config = field(1, field(1, 1024 * int(wish.get("mb", 8))) + field(4, 1))
    config += field(2, field(1, field(1, "com.example.load")))
    if "name" in wish:
        config += field(22, wish["name"])
    if "stream" in wish:
        config += field(8, 1) + field(9, 1000) + field(10, int(wish["stream"]))
    return consumer.enable(config)


def usage(consumer):
    """Bytes used and their limit, of all buffers; (0, 0) when there are none any more."""
    answer = consumer.call("GetTraceStats")
    used = size = 0
    for number, value in fields(dict(fields(answer[1])).get(1, b"")) if answer and answer[0] else []:
        if number == 1:
            buffer = dict(fields(value))
            used += min(buffer.get(1, 0), buffer.get(12, 0))
            size += buffer.get(12, 0)
    return used, size


def is_over(until, begin):
    if until.startswith("/"):
        return os.path.exists(until)
    return begin is not None and time.monotonic() - begin > int(until) / 1e3


def wait_until(consumer, until):
    """Looks at the usage, as the page does, until it is time or the recording has ended by itself."""
    begin, was = None, 0  # when there was something in the buffers; their size
    while not consumer.said and not is_over(until, begin):
        used, size = usage(consumer)
        if used and size != was:
            print("recording size=%d" % size, flush=True)
            begin, was = begin or time.monotonic(), size
        time.sleep(0.1)


def write_trace(consumer, out):
    packets = consumer.packets()
    with open(out, "wb") as file:
        for packet in packets:
            file.write(field(1, packet))
    print("packets=%d" % len(packets))


def page(consumer, until, out, *wishes):
    why = begin_page(consumer, *wishes)
    if why:
        sys.exit("error=" + why)
    wait_until(consumer, until)
    if not consumer.said:
        consumer.call("Flush", field(2, 0x22))
        consumer.call("DisableTracing")
    while not consumer.said:
        if not consumer.dispatch():
            sys.exit("closed")
    if consumer.said[0] != "ended":
        sys.exit("error=" + consumer.said[0])
    write_trace(consumer, out)


def snapshot(consumer, name, out):
    answer = consumer.call("CloneSession", field(4, name))
    reply = dict(fields(answer[1]))
    if not reply.get(1):
        sys.exit("error=" + reply.get(2, b"").decode())
    write_trace(consumer, out)


def leave(consumer, until):
    why = begin_page(consumer)
    if why:
        sys.exit("error=" + why)
    wait_until(consumer, until)
    os._exit(0)


def many(url, origin, count):
    began, inside = 0, []
    for _ in range(count):
        inside.append(Consumer(WebSocket(url, origin)))
        why = begin_page(inside[-1])
        began += not why
        if why:
            print("error=" + why)
    print("recordings=%d" % began, flush=True)
    for one in inside:
        one.close()


def status(port, path, host, origin):
    lines = ["GET %s HTTP/1.1" % path, "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + KEY]
    lines += ["Host: " + host] if host != "-" else []
    lines += ["Origin: " + origin] if origin != "-" else []
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    print((sock.recv(4096).split() + [b"", b"closed"])[1].decode())


def abuse(port):
    for data in (b"\x16\x03\x01" * 50, b"GET /traced HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
                 b"A" * 70000, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
        sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        try:
            sock.sendall(data)
            while sock.recv(4096):
                pass
        except ConnectionError:
            pass


def begin_request(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    try:
        sock.sendall(b"GET /traced HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    except ConnectionError:
        pass  # ended by now
    return sock


def is_ended(sock):
    try:
        return not sock.recv(4096)
    except ConnectionError:
        return True


def halves(port, count):
    inside = {}
    poll = select.poll()
    is_said = False
    while True:
        while len(inside) < count:
            sock = begin_request(port)
            inside[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
        if not is_said:
            print("ready", flush=True)
        is_said = True
        for fd, _ in poll.poll():
            if is_ended(inside[fd]):
                poll.unregister(fd)
                inside.pop(fd).close()


def strangers(port, count):
    """Whole requests, again and again, from a user who makes the kernel's table of connections long."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    listener = socket.create_server(("127.0.0.1", 0))
    idle = []
    for _ in range(min(9000, (limit - count - 100) // 2)):
        idle += [socket.create_connection(listener.getsockname()), listener.accept()[0]]
    request = ("GET /traced HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: https://ui.perfetto.dev\r\n"
               "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               "Sec-WebSocket-Version: 13\r\n\r\n" % port).encode()
    inside, poll = {}, select.poll()
    while True:
        while len(inside) < count:
            sock = socket.create_connection(("127.0.0.1", port), timeout=60)
            sock.sendall(request)
            inside[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
        print("ready", flush=True)
        for fd, _ in poll.poll():
            is_ended(inside[fd])
            poll.unregister(fd)
            inside.pop(fd).close()


def crowd(url, origin, count):
    inside = []
    for _ in range(count):
        try:
            inside.append(WebSocket(url, origin))
        except Exception:  # the library's, for a status that is not 101
            break
    print("inside=%d" % len(inside))
    for one in inside:
        one.close()


def main():
    mode = sys.argv[1]
    if mode == "status":
        if len(sys.argv) > 6:
            os.setresuid(*[int(sys.argv[6])] * 3)
        status(int(sys.argv[2]), *sys.argv[3:6])
        return
    if mode == "halves":
        if len(sys.argv) > 4:
            os.setresuid(*[int(sys.argv[4])] * 3)
        halves(int(sys.argv[2]), int(sys.argv[3]))
    if mode == "strangers":
        os.setresuid(*[int(sys.argv[4])] * 3)
        strangers(int(sys.argv[2]), int(sys.argv[3]))
    if mode == "half":
        sock = begin_request(int(sys.argv[2]))
        sock.settimeout(8)
        sys.exit(0 if is_ended(sock) else 1)
    if mode == "abuse":
        abuse(int(sys.argv[2]))
        return
    if mode == "crowd":
        crowd(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    if mode == "many":
        many(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    consumer = Consumer(WebSocket(*sys.argv[2:4]))
    if mode == "query":
        query(consumer)
    elif mode == "page":
        page(consumer, *sys.argv[4:])
    elif mode == "snapshot":
        snapshot(consumer, *sys.argv[4:])
    elif mode == "bare":
        print("error=%s" % consumer.enable(field(1, field(1, 1024))))
    elif mode == "leave":
        leave(consumer, sys.argv[4])
    else:
        record(consumer, int(sys.argv[4]), sys.argv[5])
    consumer.close()


main()
