#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a document that points at nothing: a relative link to no file, or in docs/limits.md a
constant that no source defines with the value given or a row without its share, in docs/abi/gotchas.md a gotcha without a test
that there is, in docs/security.md a promise without one. `--self-test` proves that all are found.

A promise is a list item. It ends with `Tests:` and names in backticks, or with `Tests: none, it is a
warning.` A name is a unit test's function, a fuzz target (x_fuzz), an attack of tests/hostile
(module.name), or a claim ("x_test.sh: its words", as they stand in tests/integration or tests/support).
"""
import os
import re
import sys

import csource

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
GOTCHA = re.compile(r"^(\d+)\. ", re.M)
TESTED = re.compile(r"^\| (\d+) \| ([^|]+?) \|", re.M)
PROMISE = re.compile(r"^- .*(?:\n  .*)*", re.M)
NO_PROMISE = "none, it is a warning."
BOUND = re.compile(r"^\| what \| value \|.*(?:\n\|.*)*", re.M)
SHARE = " share of one user "
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
    for table in BOUND.findall(text):
        head, _, *rows = [re.split(r"(?<!\\)\|", row) for row in table.split("\n")]
        for row in rows:
            if SHARE not in head or not row[head.index(SHARE)].strip():
                yield f"{name}: no share of one user: {row[1].strip()}"


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


def read_test(*parts):
    path = os.path.join(csource.ROOT, "tests", *parts)
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return " ".join(file.read().split())


def is_test(test, sources):
    script, _, claim = test.partition(": ")
    module, _, attack = test.partition(".")
    if claim:
        return claim in read_test("integration", script) + read_test("support", script)
    if attack:
        attacks = re.search(r"\bATTACKS = \[(.*?)\]", read_test("hostile", "attacks", module + ".py"))
        return attacks is not None and f'"{attack}"' in attacks.group(1)
    if test.endswith("_fuzz"):
        return read_test("fuzz", test + ".c") != ""
    return f"static void {test}(" in sources


def promises(name, text, sources):
    for item in PROMISE.findall(text):
        item = " ".join(item.split())
        promise, _, tests = item.rpartition("Tests: ")
        named = re.findall(r"`([^`]+)`", tests)
        if not promise or (not named and tests != NO_PROMISE):
            yield f"{name}: a promise names no test: {item[:60]}"
        for test in named:
            if not is_test(test, sources):
                yield f"{name}: there is no test {test}: {item[:60]}"


def check(name, text, sources):
    problems = list(links(name, text))
    if name == "docs/abi/gotchas.md":
        problems += gotchas(name, text, sources)
    if name == "docs/security.md":
        problems += promises(name, text, sources)
    if name == "docs/limits.md":
        problems += limits(name, text, sources)
    return problems


def self_test():
    code = "#define PFL_A 3u /* x */\n#define PFL_B (1u << 20)\nstatic void it_is(void **state)\n"
    bad = [("README.md", "[x](no/such.md)"), ("docs/limits.md", "| `PFL_A` = 4u |"),
           ("docs/limits.md", "| `PFL_C` = 3u |"), ("docs/abi/gotchas.md", "1. x\n\n| 2 | `it_is` |"),
           ("docs/abi/gotchas.md", "1. x\n\n| 1 | `it_is_not` |"),
           ("docs/security.md", "- x\n  y"), ("docs/security.md", "- x. Tests: some."),
           ("docs/security.md", "- x. Tests: `it_is_not`."),
           ("docs/security.md", "- x. Tests: `it_is`.\n- y."),
           ("docs/security.md", "- x. Tests: `no_such_fuzz`."),
           ("docs/security.md", "- x. Tests: `memory.nothing`."),
           ("docs/security.md", "- x. Tests: `record_test.sh: a claim\n  that nobody made`."),
           ("docs/security.md", "- x. Tests: `no_such_test.sh: x`.")]
    bad += [("docs/limits.md", "| what | value | in |\n|---|---|---|\n| x | 1 | y |"),
            ("docs/limits.md", "| what | value | share of one user |\n|-|-|-|\n| x | 1 | |")]
    good = [("docs/limits.md", "| what | value | share of one user |\n|-|-|-|\n| x | 1 | half |"),
            ("README.md", "[x](LICENSE) [y](https://x.y/z) [z](docs/style.md#a)"),
            ("docs/limits.md", "| `PFL_A` = 3u | `PFL_B` = (1u << 20) |"),
            ("docs/abi/gotchas.md", "1. x\n\n| 1 | `it_is`, `stock_test.sh` |"),
            ("docs/security.md", "- x\n  y.\n  Tests: `it_is`, `frame_fuzz`,\n  `memory.huge_pages`, "
             "`record_test.sh: a host that\n  lies listens`."),
            ("docs/security.md", "- x.\n  Tests: none, it is a warning.")]
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
