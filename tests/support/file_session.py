#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session that the service writes into a file, for the integration tests.

  file_session.py SOCKET CONFIG [OUT]    the config in text format; with OUT its descriptor is
                                         passed, else the config names output_path. Waits for the
                                         end; prints how it ended: `ended`, or the reason
"""
import os
import sys

import config_text
from service_peers import Consumer


def main(path, config, out=None):
    consumer = Consumer(path)
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) if out else None
    with open(config, encoding="utf-8") as text:
        refusal = consumer.enable(config_text.encode(text.read()), fd)
    if refusal:
        print(refusal)
        return
    while not consumer.said and consumer.dispatch():
        pass
    print("\n".join(consumer.said) or "the connection ended")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
