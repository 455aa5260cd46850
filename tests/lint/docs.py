#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a document that points at nothing: a relative link to no file or heading, or in docs/limits.md a
constant that no source defines with the value given or a row without its share, in docs/abi/gotchas.md a gotcha without a test
that there is, in docs/security.md a promise without one. In docs/adr, a decision that does not have the
one form, or that the index does not list with its title and status, or whose status the decision that
it names does not confirm. In all documents but history, a name in backticks of a file, a folder, a
test or a symbol that the repository does not have (doc_names.py). `--self-test` proves that all are
found.

A promise is a list item that begins with its id in bold (**H1**); **Warning.** promises nothing.
tests/promises.tsv has its tests (tests/gotchas.tsv those of gotchas), a line `ID TAB TEST` each: a unit test's function, a fuzz target (x_fuzz),
an attack of tests/hostile (module.name), or a claim ("x_test.sh: its words", as they stand in
tests/integration or tests/support).
"""
import os
import re
import sys

import csource
import doc_names

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
GOTCHA = re.compile(r"^(\d+)\. ", re.M)
GOTCHAS = "tests/gotchas.tsv"
PROMISE = re.compile(r"^- .*(?:\n  .*)*", re.M)
PROMISE_ID = re.compile(r"- \*\*(?:([A-Z]\d+)|Warning\.)\*\* \S")
PROMISES = "tests/promises.tsv"
BOUND = re.compile(r"^\| what \| value \|.*(?:\n\|.*)*", re.M)
SHARE = " share of one user "
LIMIT = re.compile(r"\| `([A-Z_]+)` = ([^|]+?) \|")
ADR = re.compile(r"docs/adr/(?=\d{4}-)0*(\d+)-[^/]+\.md$")
ADR_INDEX = "docs/adr/README.md"
ADR_HEAD = re.compile(r"# (\d+) (\S.*)\n\nStatus: (.+)\.\n\n## ")
ADR_STATUS = re.compile(r"(accepted|replaced by \d+)"
                        r"(; replace(s|s in part|d in part by) \d+(, \d+)*)*$")
ADR_CHAPTERS = (["Context", "Decision", "Consequences"],
                ["Context", "Decision", "Considered", "Consequences"])
ADR_ROW = re.compile(r"^\| \[.*", re.M)
ADR_ENTRY = re.compile(r"\| \[(\d+)\]\(([^)]+)\) \| ([^|]+?) \| ([^|]+?) \| [^| ][^|]* \|$")
ADR_FORM = ("begin with '# NUMBER Title', an empty line, 'Status: accepted.' (or 'replaced by N', "
            "'accepted; replaces N', 'accepted; replaced in part by N'), then the chapters "
            "'## Context', '## Decision', '## Considered' (if there is something), "
            "'## Consequences'")


def anchors(text):
    """The fragments that a page has: of its headings, as GitHub makes them, and by name."""
    found = set(re.findall(r'<a name="([^"]+)"', text))
    for heading in HEADING.findall(FENCED.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug, number = re.sub(r"[^\w\- ]", "", words).replace(" ", "-"), 0
        while (slug if number == 0 else f"{slug}-{number}") in found:
            number += 1
        found.add(slug if number == 0 else f"{slug}-{number}")
    return found


def links(name, text):
    folder = os.path.dirname(name)
    for number, line in enumerate(text.split("\n"), 1):
        for target, fragment in LINK.findall(line):
            if "://" in target or not target and not fragment:
                continue
            path = os.path.normpath(os.path.join(folder, target)) if target else name
            if target and not os.path.exists(os.path.join(csource.ROOT, path)):
                yield f"{name}:{number}: no file {target}"
            elif fragment and path.endswith(".md") and \
                    fragment not in anchors(csource.read(path) if target else text):
                yield f"{name}:{number}: no heading #{fragment} in {path}"


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


def gotchas(name, text, sources, table):
    """`table`: the text of tests/gotchas.tsv."""
    tests, numbers = tests_of(table), GOTCHA.findall(text)
    for number in numbers:
        if number not in tests:
            yield f"{name}: {GOTCHAS} names no test of {number}"
    for number, named in tests.items():
        if number not in numbers:
            yield f"{GOTCHAS}: {name} has no gotcha {number}"
        for test in named:
            if f"static void {test}(" not in sources and not read_test("integration", test):
                yield f"{GOTCHAS}: there is no test {test} (gotcha {number})"


def tests_of(table):
    """What a table of tests names: id to tests."""
    tests = {}
    for row in table.split("\n"):
        if row and not row.startswith("#"):
            key, _, test = row.partition("\t")
            tests.setdefault(key, []).append(test)
    return tests


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
    return f"static void {test}(" in sources or f"\nvoid {test}(void **state)\n{{" in sources


def promises(name, text, sources, table):
    """`table`: the text of tests/promises.tsv."""
    tests, seen = tests_of(table), set()
    for item in PROMISE.findall(text):
        head = PROMISE_ID.match(item)
        if head is None:
            yield f"{name}: an item without an id (**H1**) or **Warning.**: {item[:60]}"
        elif head.group(1) in seen:
            yield f"{name}: two promises have the id {head.group(1)}"
        elif head.group(1) and head.group(1) not in tests:
            yield f"{name}: {PROMISES} names no test of {head.group(1)}"
        seen |= {head.group(1)} - {None} if head else set()
    for promise, named in tests.items():
        if promise not in seen:
            yield f"{PROMISES}: {name} has no promise {promise}"
        for test in named:
            if not is_test(test, sources):
                yield f"{PROMISES}: {promise}: there is no test {test}"


def adr_form(name, text):
    """Number, title and status of a decision, and what is wrong with its form."""
    number, head = ADR.match(name).group(1), ADR_HEAD.match(text)
    if head is None or head.group(1) != number or not ADR_STATUS.match(head.group(3)):
        return (number, "", ""), [f"{name}: the head has not the form of a decision: {ADR_FORM}"]
    if re.findall(r"^## (.*)$", text, re.M) not in ADR_CHAPTERS:
        return head.groups(), [f"{name}: the chapters are not those of a decision: {ADR_FORM}"]
    return head.groups(), []


def adr_relations(number, status):
    """(older, newer, " in part" or "") for each number in a status."""
    for part, by, numbers in re.findall(r"replace[sd]( in part)?( by)? (\d+(?:, \d+)*)", status):
        for other in numbers.split(", "):
            yield (number, other, part) if by else (other, number, part)


def decisions(texts):
    """`texts`: name to text, of the index and all decisions."""
    problems = [f"{n}: not the name of a decision: call it docs/adr/NNNN-its-words.md"
                for n in sorted(texts) if n != ADR_INDEX and not ADR.match(n)]
    heads, relations = {}, {}
    for name in sorted(n for n in texts if ADR.match(n)):
        head, wrong = adr_form(name, texts[name])
        problems += wrong
        if head[0] in heads:
            problems.append(f"{name}: {heads[head[0]][0]} has the number {head[0]}, too: "
                            "take a free one")
        heads[head[0]] = (name, *head[1:])
        relations[head[0]] = set(adr_relations(head[0], head[2]))
    for number, found in relations.items():
        for older, newer, part in sorted(found):
            other = newer if older == number else older
            if (older, newer, part) not in relations.get(other, ()):
                problems.append(f"{heads[number][0]}: decision {other} does not confirm the status: "
                                f"write 'replaced{part} by {newer}' in {older} and "
                                f"'replaces{part} {older}' in {newer}")
    entries = {}
    for item in ADR_ROW.findall(texts.get(ADR_INDEX, "")):
        entry = ADR_ENTRY.match(item)
        if entry is None or entry.group(1) in entries:
            problems.append(f"{ADR_INDEX}: write once '| [NUMBER](FILE) | Title | status | "
                            f"what holds today |': {item[:60]}")
        else:
            entries[entry.group(1)] = entry.groups()
    for number, (name, title, status) in heads.items():
        want = (number, os.path.basename(name), title, status)
        if title and entries.get(number) != want:
            problems.append(f"{name}: not in {ADR_INDEX} as it is: write there "
                            f"'| [{want[0]}]({want[1]}) | {title} | {status} | what holds today |'")
    return problems + [f"{ADR_INDEX}: there is no decision {n}: take the entry out"
                       for n in entries if n not in heads]


def check(name, text, sources, table=""):
    problems = list(links(name, text))
    if name == "docs/abi/gotchas.md":
        problems += gotchas(name, text, sources, table)
    if name == "docs/security.md":
        problems += promises(name, text, sources, table)
    if name == "docs/limits.md":
        problems += limits(name, text, sources)
    return problems


def adr_cases():
    """What decisions() must refuse, and what it must accept."""
    def adr(number, status, chapters="Context Decision Considered Consequences"):
        return f"# {number} T {number}\n\nStatus: {status}.\n" + "".join(
            f"\n## {c}\n\nx\n" for c in chapters.split())

    def entry(number, status="accepted", title="T"):
        return f"| [{number}](000{number}-x.md) | {title} {number} | {status} | x |\n"

    def tree(index, *texts):
        return {ADR_INDEX: index, **{f"docs/adr/000{n}-x.md": t for n, t in enumerate(texts, 1)}}

    one, old, new = adr(1, "accepted"), adr(1, "replaced by 2"), adr(2, "accepted; replaces 1")
    both = entry(1, "replaced by 2") + entry(2, "accepted; replaces 1")
    bad = [tree("", one), tree(entry(1) + entry(1), one), tree(entry(1) + entry(2), one),
           tree(entry(1, title="U"), one), tree(entry(1, "replaced by 2"), one),
           tree(entry(1).replace("| x |", "| |"), one), tree(entry(1), adr(2, "accepted")),
           tree(entry(1), one.replace("Status: accepted.", "**Status.** Accepted.")),
           tree(entry(1, "proposed"), adr(1, "proposed")),
           tree(entry(1), adr(1, "accepted", "Decision")),
           tree(entry(1), adr(1, "accepted", "Decision Context Consequences")),
           tree(entry(1) + entry(2, "accepted; replaces 1"), one, new),
           tree(entry(1, "replaced by 2"), old), {**tree(entry(1), one), "docs/adr/note.md": one},
           tree(both.replace("replaces 1", "replaces in part 1"), old,
                new.replace("replaces 1", "replaces in part 1"))]
    part = [adr(1, "accepted; replaced in part by 2, 3"), adr(2, "accepted; replaces in part 1"),
            adr(3, "accepted; replaces in part 1", "Context Decision Consequences")]
    good = [tree(entry(1), one), tree(both, old, new),
            tree(entry(1, "accepted; replaced in part by 2, 3")
                 + entry(2, "accepted; replaces in part 1")
                 + entry(3, "accepted; replaces in part 1"), *part)]
    return bad, good


def self_test():
    code = "#define PFL_A 3u /* x */\n#define PFL_B (1u << 20)\nstatic void it_is(void **state)\n"
    bad = [("README.md", "[x](no/such.md)"), ("README.md", "[x](docs/style.md#no-such)"),
           ("README.md", "# A\n[x](#b)"), ("docs/limits.md", "| `PFL_A` = 4u |"),
           ("docs/limits.md", "| `PFL_C` = 3u |"), ("docs/abi/gotchas.md", "1. x"),
           ("docs/security.md", "- x\n  y")]
    bad += [("docs/limits.md", "| what | value | in |\n|---|---|---|\n| x | 1 | y |"),
            ("docs/limits.md", "| what | value | share of one user |\n|-|-|-|\n| x | 1 | |")]
    good = [("docs/limits.md", "| what | value | share of one user |\n|-|-|-|\n| x | 1 | half |"),
            ("README.md", "[x](LICENSE) [y](https://x.y/z#a) [z](docs/style.md#2-names)"),
            ("README.md", "# A b, `c`!\n[x](#a-b-c)"),
            ("docs/limits.md", "| `PFL_A` = 3u | `PFL_B` = (1u << 20) |"),
            ("docs/security.md", "- **Warning.** x.")]
    item = "- **A1** x\n  y"
    tables = [(item, ""), (item, "A1\tit_is_not"), (item + "\n- **A1** z", "A1\tit_is"),
              (item, "A1\tit_is\nA2\tit_is"), (item, "A1\tno_such_fuzz"), (item, "A1\tmemory.nothing"),
              (item, "A1\trecord_test.sh: a claim that nobody made"), (item, "A1\tno_such_test.sh: x")]
    table = ("# x\nA1\tit_is\nA1\tframe_fuzz\nA1\tmemory.brought\n"
             "A1\trecord_test.sh: a host that lies listens\n")
    wrong = [t for n, t in bad if not check(n, t, code)] + [t for n, t in good if check(n, t, code)]
    wrong += [t for n, t in tables if not check("docs/security.md", n, code, t)]
    wrong += list(check("docs/security.md", item, code, table))
    facts = ["2\tit_is", "1\tit_is\n2\tit_is", "1\tit_is_not", "1\tno_such_test.sh"]
    wrong += [f for f in facts if not check("docs/abi/gotchas.md", "1. x", code, f)]
    wrong += list(check("docs/abi/gotchas.md", "1. x", code, "# x\n1\tit_is\n1\tstock_test.sh\n"))
    tables += facts
    adr_bad, adr_good = adr_cases()
    wrong += [t for t in adr_bad if not decisions(t)] + [t for t in adr_good if decisions(t)]
    names_wrong, names_count = doc_names.self_test()
    wrong += names_wrong
    bad, good = bad + tables + adr_bad, good + [table] + adr_good
    for w in wrong:
        print(f"docs self-test: judged wrongly: {w!r}")
    print(f"docs self-test: {len(bad) + len(good) + names_count} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    SOURCES = "\n".join(csource.read(n) for n in csource.files(".c", ".h"))
    NAMES = csource.files(".md")
    TEXTS = {n: csource.read(n) for n in NAMES}
    TABLES = {"docs/abi/gotchas.md": GOTCHAS, "docs/security.md": PROMISES}
    PROBLEMS = [p for n in NAMES
                for p in check(n, TEXTS[n], SOURCES, csource.read(TABLES[n]) if n in TABLES else "")]
    PROBLEMS += decisions({n: t for n, t in TEXTS.items() if n.startswith("docs/adr/")})
    TREE = doc_names.of_repository()
    PROBLEMS += [p for n in NAMES for p in doc_names.missing(n, TEXTS[n], TREE)]
    csource.finish("docs", PROBLEMS, len(NAMES))
