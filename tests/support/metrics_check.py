#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus' text format (0.0.4) strictly.

    metrics_check.py format FILE             fails on what a strict reader does not take, or on bad names
    metrics_check.py value FILE ROW          prints the value of a row, such as 'x_total{a="b"}'
    metrics_check.py documented FILE DOC     each family is in DOC's tables with its type, and no other
"""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
ROW = re.compile(rf"({NAME})(\{{{LABEL}(?:,{LABEL})*\}})? (NaN|[+-]Inf|-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)$")


def parse(path):
    """[(family, type, help, {row: value})]; raises ValueError."""
    with open(path, encoding="ascii", newline="") as f:
        text = f.read()
    if not text.endswith("\n") or "\r" in text:
        raise ValueError("does not end with a line end, or has another kind")
    families, lines, i = [], text[:-1].split("\n"), 0
    while i < len(lines):
        head = re.fullmatch(rf"# HELP ({NAME}) ([^\\]+)", lines[i])
        kind = head and re.fullmatch(rf"# TYPE {head[1]} (counter|gauge)", lines[i + 1])
        if not kind:
            raise ValueError(f"line {i + 1}: no HELP and TYPE: {lines[i]}")
        i += 2
        rows = {}
        while i < len(lines) and not lines[i].startswith("#"):
            row = ROW.match(lines[i])
            if not row or row[1] != head[1]:
                raise ValueError(f"line {i + 1}: no row of {head[1]}: {lines[i]}")
            key = row[1] + (row[2] or "")
            if key in rows:
                raise ValueError(f"line {i + 1}: twice: {key}")
            rows[key] = float(row[3])
            i += 1
        families.append((head[1], kind[1], head[2], rows))
    return families


def judge(families):
    names = [name for name, *_ in families]
    yield from (f"{n}: twice" for n in set(names) if names.count(n) > 1)
    for name, kind, text, rows in families:
        if (kind == "counter") != name.endswith("_total"):
            yield f"{name}: counters, and they alone, end in _total"
        if kind == "counter" and any(v < 0 for v in rows.values()):
            yield f"{name}: a counter below zero"
        if not name.startswith(("perfleet_", "process_")):
            yield f"{name}: whose is it?"
        if not text.endswith("."):
            yield f"{name}: its help is no sentence"


def documented(families, doc):
    with open(doc, encoding="utf-8") as f:
        rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", f.read(), re.M))
    for name, kind, *_ in families:
        if rows.get(name) != kind:
            yield f"{name}: {kind} here, {rows.get(name, 'nothing')} in {doc}"


def main():
    what, path, *more = sys.argv[1:]
    families = parse(path)
    if what == "value":
        print(next(f"{rows[more[0]]:.17g}" for *_, rows in families if more[0] in rows))
        return 0
    wrong = list(judge(families) if what == "format" else documented(families, more[0]))
    print("\n".join(wrong) or f"{len(families)} families")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
