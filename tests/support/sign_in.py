#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the service that signs people in, before nginx: sign_in.py. Prints "port N".

/sign-in/as?NAME signs NAME in (a cookie); /sign-in/check answers nginx: 200 with X-Person, or 401. Who asks is known by the
cookie alone."""
import http.server
import secrets
import urllib.parse

PEOPLE = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        if at.path == "/sign-in/check":
            cookies = dict(c.strip().split("=", 1) for c in self.headers.get("Cookie", "").split(";") if "=" in c)
            name = PEOPLE.get(cookies.get("session"))
            return self.answer(200 if name else 401, {"X-Person": name} if name else {})
        if at.path == "/sign-in/as" and at.query:
            session = secrets.token_hex(16)
            PEOPLE[session] = at.query
            return self.answer(302, {"Location": "/hosts",
                                     "Set-Cookie": f"session={session}; Path=/; HttpOnly; Secure; SameSite=Lax"})
        return self.answer(200, {}, b"<!doctype html><html lang=en><title>Sign in</title><link rel=icon href=data:,><h1>Sign in</h1>\n")

    def answer(self, status, fields, body=b""):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()
