#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From what the machines of tests/kernels/run print (stdin) to one list of TAP: each claim gets the kernel's and the
test's name before it and a number of its own. A test that ends early or badly, a kernel that complains and a machine
that does not come to its end are claims that failed. The last line is `N passed, N failed, N skipped`."""
import os
import re
import sys

CLAIM = re.compile(r"(ok|not ok) \d+ - (.*)")


class Claims:
    def __init__(self):
        self.count = self.failed = self.skipped = 0
        self.kernel = self.test = ""
        self.on_boot("")

    def claim(self, good, text):
        self.count += 1
        self.failed += not good
        self.skipped += good and "# SKIP" in text
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)

    def on_boot(self, name):
        self.kernel = os.path.basename(name)
        self.complaints, self.console, self.done = 0, [], False

    def on_kernel(self, version):
        print(f"# {self.kernel}: Linux {version}", flush=True)

    def on_begin(self, name):
        self.test, self.planned, self.bad = os.path.basename(name), False, False

    def on_end(self, name_and_code):
        code = name_and_code.split()[-1]
        if not self.planned or (code != "0" and not self.bad):
            self.claim(False, f"{self.kernel} {self.test}: comes to its end (exit code {code})")

    def on_complaint(self, line):
        self.complaints += 1
        print(f"#   {line}", flush=True)

    def on_console(self, line):
        self.console.append(line)

    def on_done(self, _):
        self.done = True

    def on_over(self, _):
        self.claim(self.done, f"{self.kernel}: the machine boots and runs all tests to their end")
        if self.done:
            self.claim(self.complaints == 0, f"{self.kernel}: the kernel complained of nothing")
        else:
            print("\n".join(f"#   {line}" for line in self.console), flush=True)

    def feed(self, line):
        if line.startswith("@"):
            event, _, rest = line[1:].partition(" ")
            getattr(self, f"on_{event}")(rest)
        elif found := CLAIM.fullmatch(line):
            self.bad = self.bad or found[1] != "ok"
            self.claim(found[1] == "ok", f"{self.kernel} {self.test}: {found[2]}")
        elif re.fullmatch(r"1\.\.\d+", line):
            self.planned = True
        else:
            print(line if line.startswith("#") else f"# {line}", flush=True)


def main():
    claims = Claims()
    for line in iter(sys.stdin.buffer.readline, b""):
        claims.feed(line.decode(errors="replace").rstrip("\r\n"))
    print(f"1..{claims.count}")
    print(f"{claims.count - claims.failed - claims.skipped} passed, {claims.failed} failed, {claims.skipped} skipped")
    return 1 if claims.failed else 0


if __name__ == "__main__":
    sys.exit(main())
