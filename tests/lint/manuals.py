#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a program, a command or an option of ours, or a file that the packages install, is in no manual
page, or when a page points at one that is not there.

    manuals.py BUILD      BUILD/bin has the programs       manuals.py --self-test
"""
import os
import re
import subprocess
import sys

import csource

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
PAGE = re.compile(r"(?<![\w.-])(perfleet[a-z.-]*)\((\d)\)")
PROGRAMS = {  # program, or program and command: its pages
    ("perfleetd",): ("perfleetd.8",), ("perfleet-keep",): ("perfleet-keep.8",),
    ("perfleet-probes",): ("perfleet-probes.8",),
    ("perfleet-agent",): ("perfleet-agent.8",), ("perfleet-agent", "join"): ("perfleet-agent.8",),
    ("perfleet-agent", "renew"): ("perfleet-agent.8",),
    ("perfleet-collector",): ("perfleet-collector.8",), ("perfleet-relay",): ("perfleet-relay.8",), ("perfleet-example",): ("perfleet-example.1",),
    ("perfleet-trigger",): ("perfleet-trigger.1",),
    ("perfleet", "pki"): ("perfleet-pki.1",),
}
OF_COMMANDS = ("perfleet.1", "perfleet-record.1", "perfleet-ask.1", "perfleet-ui.1")
FILES = {  # what is installed and read or written: its page
    "deploy/conf/perfleetd.conf": "perfleetd.conf.5", "deploy/conf/probes.conf": "perfleet-probes.conf.5",
    "deploy/conf/agent.conf": "perfleet-agent.conf.5", "deploy/conf/relay.conf": "perfleet-relay.conf.5",
    "deploy/conf/collector.conf": "perfleet-collector.conf.5",
    "deploy/conf/policy.pbtx": "perfleet-policy.5", "deploy/conf/perfleet.conf": "perfleet.conf.5",
}
ROOM = 56  # columns that all columns of a table but the last may take: that one wraps, in what is left of 80
SECTIONS = ("## NAME", "## SYNOPSIS", "## DESCRIPTION", "## SEE ALSO")


def check_options(command, usage, pages):
    for option in sorted(set(OPTION.findall(usage))):
        if option not in OPTION.findall(pages):
            yield "%s %s is in no manual page" % (" ".join(command), option)


def check_page(name, text, known):
    for section in SECTIONS:
        if section not in text and not (section == "## DESCRIPTION" and "## COMMANDS" in text):
            yield "%s has no %s" % (name, section[3:])
    if not text.startswith("# %s(%s)\n" % tuple(name.rsplit(".", 1))):
        yield "%s does not begin with its name" % name
    yield from check_tables(name, text)
    yield from check_terms(name, text)
    for page, number in PAGE.findall(text):
        if "%s.%s" % (page, number) not in known:
            yield "%s points at %s(%s), which is not there" % (name, page, number)


def check_terms(name, text):
    """A definition list has the term on its own line, and `: text` on the next."""
    for paragraph in re.split(r"\n\n+", text):
        if re.match(r"[`*][^\n]*(?:\n(?!: )[^\n]*)? : ", paragraph) and "\n: " not in paragraph:
            yield "%s: ` : ` stands behind its term, and no list comes of it: %s" % (
                name, paragraph.splitlines()[0])


def check_tables(name, text):
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [re.split(r"(?<!\\)\|", line.strip())[1:-2] for line in table.splitlines()]
        widths = [max(len(cell.strip()) + 1 for cell in column) for column in zip(*rows)]
        if sum(widths) > ROOM:
            yield "%s: a table's columns but the last take %d columns, not %d: %s" % (
                name, sum(widths), ROOM, table.splitlines()[0])


def run(folder, *command):
    out = subprocess.run([os.path.join(folder, command[0]), *command[1:]], check=False, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return out.stdout.decode()


def check_programs(folder, pages):
    programs = dict(PROGRAMS)
    for command in run(folder, "perfleet", "complete").split():
        programs.setdefault(("perfleet", command), OF_COMMANDS)
        if "**%s**" % command not in pages["perfleet.1"]:
            yield "perfleet.1 does not name %s" % command
    for command, names in sorted(programs.items()):
        yield from check_options(command, run(folder, *command, "--help"), "\n".join(pages[n] for n in names))


def self_test():
    good = "# a(1)\n## NAME\n## SYNOPSIS\n## DESCRIPTION\n## SEE ALSO\nperfleet-a(1)\n"
    found = [list(check_options(("a",), "  --x N, --y-z", "`--x`")), list(check_page("a.1", good[:20], set())),
             list(check_page("b.1", good, {"perfleet-a.1"})), list(check_page("a.1", good, set())),
             list(check_terms("a.1", "`--x` : Does y."))]
    found.append(list(check_tables("a.1", "\n| a | %s | c |\n|---|---|---|\n" % ("b" * 60))))
    clean = [list(check_options(("a",), "  --x N", "**--x N**")), list(check_page("a.1", good, {"perfleet-a.1"})),
             list(check_tables("a.1", "\n| a | %s |\n|---|---|\n" % ("b" * 200))),
             list(check_terms("a.1", "`--x`\n: Does y : or z."))]
    wrong = [f for f in found if not f] + [c for c in clean if c]
    print("manuals self-test: %d cases, %d wrong" % (len(found) + len(clean), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    MAN = os.path.join(csource.ROOT, "docs", "man")
    PAGES = {n[:-3]: csource.read("docs/man/" + n) for n in os.listdir(MAN) if n.endswith(".md")}
    PROBLEMS = [p for n, text in sorted(PAGES.items()) for p in check_page(n, text, PAGES)]
    for file in csource.files(".conf", ".pbtx"):
        if file.startswith("deploy/conf/") and FILES.get(file) not in PAGES:
            PROBLEMS.append("%s has no manual page" % file)
    if os.path.exists(os.path.join(sys.argv[1], "bin", "perfleet")):
        PROBLEMS += check_programs(os.path.join(sys.argv[1], "bin"), PAGES)
    csource.finish("manuals", PROBLEMS, len(PAGES))
