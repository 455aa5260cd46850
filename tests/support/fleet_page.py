#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves fleet_page.html over HTTPS on loopback, and keeps what it posts.

Usage: fleet_page.py CERT KEY WORK-PAGE FOLDER
Prints "port N". The page begins when FOLDER/begin is there, with the WebSocket's URL in it; it
leaves FOLDER/said, the lines of its log, and FOLDER/trace."""
import http.server
import os
import ssl
import sys
import threading

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fleet_page.html")
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    pages = {}
    folder = ""

    def answer(self, status, body=b"", kind="text/html"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        begin = os.path.join(self.folder, "begin")
        if path == "/begin":
            body = open(begin, "rb").read().strip() if os.path.exists(begin) else b""
            self.answer(200, body, "text/plain")
        elif path in self.pages:
            with open(self.pages[path], "rb") as page:
                self.answer(200, page.read())
        else:
            self.answer(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            if self.path == "/trace":
                with open(os.path.join(self.folder, "trace.partial"), "wb") as out:
                    out.write(body)
                os.rename(out.name, os.path.join(self.folder, "trace"))
            elif self.path == "/log":
                with open(os.path.join(self.folder, "said"), "ab") as out:
                    out.write(body + b"\n")
        self.answer(200)


def main():
    cert, key, work_page, Handler.folder = sys.argv[1:]
    Handler.pages = {"/": PAGE, "/work.html": work_page}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True,
                                        do_handshake_on_connect=False)
    print("port %d" % server.server_address[1], flush=True)
    server.serve_forever()


main()
