#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves a folder over HTTPS on 127.0.0.1.

Usage: https_folder.py CERT KEY FOLDER
Prints "port N"."""
import functools
import http.server
import ssl
import sys

cert, key, folder = sys.argv[1:]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("port %d" % server.server_address[1], flush=True)
server.serve_forever()
