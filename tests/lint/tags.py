#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a struct, union or enum tag that two files of the product define: one tag, one definition.
A tag without the prefix pfl_ that a .c file defines for itself is as a static function: others may
have the same. `--self-test` proves that each case is found.
"""
import re
import sys

import csource

DEFINED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
# Tags with two definitions, and why: none so far. A tag with one definition must leave the list.
EXCEPTIONS = {}


def definitions(texts):
    """Tag to the places, `name:line`, that define it."""
    found = {}
    for name, text in texts.items():
        code = csource.code_only(text)
        for match in DEFINED.finditer(code):
            if match.group(1).startswith("pfl_") or name.endswith(".h"):
                line = code.count("\n", 0, match.start()) + 1
                found.setdefault(match.group(1), []).append(f"{name}:{line}")
    return found


def check(texts, exceptions):
    found = definitions(texts)
    problems = [f"{places[0]}: {tag} is also defined in {', '.join(places[1:])}: rename one"
                for tag, places in sorted(found.items())
                if len(places) > 1 and tag not in exceptions]
    return problems + [f"tests/lint/tags.py: {tag} no longer has two definitions: "
                       "take it out of EXCEPTIONS"
                       for tag in exceptions if len(found.get(tag, ())) < 2]


def product():
    return {n: csource.read(n) for n in csource.files(".c", ".h") if not n.startswith("tests/")}


def self_test():
    two = {"a/x.h": "struct pfl_x {\n};", "b/x.c": "enum pfl_x\n{ A };"}
    bad = [(two, {}), ({"a/x.h": "struct row { int a; };", "b/x.h": "union row { int a; };"}, {}),
           ({"a/x.c": "struct pfl_x { struct pfl_x { int a; } b; };"}, {}),
           ({"a/x.h": "struct pfl_x {\n};"}, {"pfl_x": "y"}), ({}, {"pfl_x": "y"})]
    good = [(two, {"pfl_x": "y"}), ({"a/x.c": "struct row { int a; };", "b/x.c": "struct row { int b; };"}, {}),
            ({"a/x.h": "struct pfl_x;\nstruct pfl_x f(struct pfl_x *x);", "b/x.h": "struct pfl_x {\n};"}, {}),
            ({"a/x.h": "/* struct pfl_x { */", "b/x.h": "struct pfl_x {\n};"}, {})]
    wrong = [t for t in bad if not check(*t)] + [t for t in good if check(*t)]
    for w in wrong:
        print(f"tags self-test: judged wrongly: {w!r}")
    print(f"tags self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    TEXTS = product()
    csource.finish("tags", check(TEXTS, EXCEPTIONS), len(TEXTS))
