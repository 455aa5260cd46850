#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a store of S3 that has bad days.

Usage: faulty_proxy.py PORT-FILE UPSTREAM-PORT FAULT-FILE COUNT-FILE

It listens on 127.0.0.1 and writes its port into PORT-FILE. It passes each request on to 127.0.0.1:UPSTREAM-PORT and
the answer back, but FAULT-FILE, which it reads for each request, may name a fault:

  (empty)     none
  500, 503, 403   that status, and the request is not passed on
  drop        the connection ends without an answer
  half        of a request with a body, half is taken; of an answer with a body, half is given; then the connection ends
  late        the answer comes after two seconds
  lie         a PUT is answered with 200 and not passed on
  short       a HEAD says one byte less than there is
  blind       a PUT is answered with 200 and not passed on, and a HEAD says that it is there, with its length

COUNT-FILE gets a line for each request that met a fault: FAULT METHOD.
"""
import http.client
import http.server
import pathlib
import sys
import time

FAULTS = ("500", "503", "403", "drop", "half", "late", "lie", "short", "blind")
NOT_PASSED = ("connection", "host", "transfer-encoding", "keep-alive", "content-length")


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, fault):
        with open(sys.argv[4], "a", encoding="ascii") as file:
            file.write(f"{fault} {self.command}\n")

    def end_here(self):
        self.close_connection = True

    def read_body(self, fault):
        left = int(self.headers.get("Content-Length") or 0)
        if fault == "half" and left > 1:
            self.rfile.read(left // 2)
            return None
        return self.rfile.read(left)

    def answer(self, status, headers, body, half=False):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in NOT_PASSED:
                self.send_header(name, value)
        length = dict((n.lower(), v) for n, v in headers).get("content-length", len(body))
        self.send_header("Content-Length", str(length if self.command == "HEAD" else len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if half else body)

    def pass_on(self, body):
        upstream = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
        headers = {n: v for n, v in self.headers.items() if n.lower() not in ("connection", "expect")}
        upstream.request(self.command, self.path, body=body or None, headers=headers)
        answer = upstream.getresponse()
        result = answer.status, answer.getheaders(), answer.read()
        upstream.close()
        return result

    def lie(self, fault, body):
        """True: it is answered."""
        if self.command == "PUT" and fault in ("lie", "blind"):
            self.server.lengths[self.path] = len(body)
            self.answer(200, [("ETag", '"0"')], b"")
            return True
        if self.command == "HEAD" and fault == "blind" and self.path in self.server.lengths:
            self.answer(200, [("Content-Length", str(self.server.lengths[self.path]))], b"")
            return True
        return False

    def run(self):
        fault = pathlib.Path(sys.argv[3]).read_text(encoding="ascii").strip()
        assert fault in FAULTS or not fault, fault
        if fault:
            self.note(fault)
        if fault == "drop":
            self.end_here()
            return
        body = self.read_body(fault)
        if body is None:
            self.end_here()
            return
        if fault in ("500", "503", "403"):
            self.answer(int(fault), [], b"")
            return
        if fault and self.lie(fault, body):
            return
        if fault == "late":
            time.sleep(2)
        try:
            status, headers, data = self.pass_on(body)
        except OSError:
            self.end_here()
            return
        if fault == "short" and self.command == "HEAD":
            headers = [(n, str(int(v) - 1) if n.lower() == "content-length" and int(v) else v) for n, v in headers]
        half = fault == "half" and len(data) > 1
        self.answer(status, headers, data, half)
        if half:
            self.end_here()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = run


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    lengths = {}

    def handle_error(self, request, client_address):
        """A client that goes away is no event."""


def main():
    server = Server(("127.0.0.1", 0), Proxy)
    port = pathlib.Path(sys.argv[1])
    half = port.with_suffix(".half")
    half.write_text(str(server.server_address[1]), encoding="ascii")
    half.rename(port)
    server.serve_forever()


main()
