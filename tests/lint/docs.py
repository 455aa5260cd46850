#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a document that points at nothing: a relative link to no file, or in docs/limits.md a
constant that no source defines with the value given, in docs/abi/gotchas.md a gotcha without a test
that there is. `--self-test` proves that all are found.
"""
import os
import re
import sys

import csource

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
GOTCHA = re.compile(r"^(\d+)\. ", re.M)
TESTED = re.compile(r"^\| (\d+) \| ([^|]+?) \|", re.M)
LIMIT = re.compile(r"\| `([A-Z_]+)` = ([^|]+?) \|")


def links(name, text):
    folder = os.path.dirname(name)
    for number, line in enumerate(text.split("\n"), 1):
        for target in LINK.findall(line):
            if "://" in target:
                continue
            if not os.path.exists(os.path.join(csource.ROOT, folder, target)):
                yield f"{name}:{number}: no file {target}"


def limits(name, text, sources):
    for constant, value in LIMIT.findall(text):
        define = re.compile(r"^#define %s\s+%s(?=\s|$)" % (constant, re.escape(value)), re.M)
        if not define.search(sources):
            yield f"{name}: no source has #define {constant} {value}"


def gotchas(name, text, sources):
    tested = dict(TESTED.findall(text))
    for number in GOTCHA.findall(text):
        if number not in tested:
            yield f"{name}: gotcha {number} has no test"
    for number, tests in tested.items():
        for test in re.findall(r"`([^`]+)`", tests):
            if f"static void {test}(" not in sources and not os.path.exists(
                    os.path.join(csource.ROOT, "tests", "integration", test)):
                yield f"{name}: there is no test {test} (gotcha {number})"


def check(name, text, sources):
    problems = list(links(name, text))
    if name == "docs/abi/gotchas.md":
        problems += gotchas(name, text, sources)
    if name == "docs/limits.md":
        problems += limits(name, text, sources)
    return problems


def self_test():
    code = "#define PFL_A 3u /* x */\n#define PFL_B (1u << 20)\nstatic void it_is(void **state)\n"
    bad = [("README.md", "[x](no/such.md)"), ("docs/limits.md", "| `PFL_A` = 4u |"),
           ("docs/limits.md", "| `PFL_C` = 3u |"), ("docs/abi/gotchas.md", "1. x\n\n| 2 | `it_is` |"),
           ("docs/abi/gotchas.md", "1. x\n\n| 1 | `it_is_not` |")]
    good = [("README.md", "[x](LICENSE) [y](https://x.y/z) [z](docs/style.md#a)"),
            ("docs/limits.md", "| `PFL_A` = 3u | `PFL_B` = (1u << 20) |"),
            ("docs/abi/gotchas.md", "1. x\n\n| 1 | `it_is`, `stock_test.sh` |")]
    wrong = [t for n, t in bad if not check(n, t, code)] + [t for n, t in good if check(n, t, code)]
    for w in wrong:
        print(f"docs self-test: judged wrongly: {w!r}")
    print(f"docs self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    SOURCES = "\n".join(csource.read(n) for n in csource.files(".c", ".h"))
    NAMES = csource.files(".md")
    csource.finish("docs", [p for n in NAMES for p in check(n, csource.read(n), SOURCES)], len(NAMES))
