#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An instance's metadata service, version 2, that gives the keys S3RVER. Usage: metadata_service.py
PORT-FILE, which gets the port that it listens on."""
import http.server
import sys
import time

ROLE = "/latest/meta-data/iam/security-credentials/"
KEYS = '{"AccessKeyId": "S3RVER", "SecretAccessKey": "S3RVER", "Token": "session", "Expiration": "%s"}'


class Service(http.server.BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.answer("a-token")

    def do_GET(self):
        if self.headers["X-aws-ec2-metadata-token"] != "a-token":
            self.send_error(401)
        elif self.path == ROLE:
            self.answer("a-role")
        elif self.path == ROLE + "a-role":
            self.answer(KEYS % time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
        else:
            self.send_error(404)


server = http.server.HTTPServer(("127.0.0.1", 0), Service)
with open(sys.argv[1], "w", encoding="ascii") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
