#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a message, field, enum or value of proto/perfetto/*.proto that is not as docs/abi/fields.tsv
and enums.tsv have it: these tables are the protocol's facts. Fields from 50001 on, and the messages that
only they use, are perfleet's own. A message may be declared as bytes: the encoding is the same.

Usage: schema.py | --self-test
"""
import re
import sys

import csource

OWN = 50001
FIELD = re.compile(r"(?:(optional|repeated|required)\s+)?([\w.]+)\s+(\w+)\s*=\s*(\d+)")
VALUE = re.compile(r"(\w+)\s*=\s*(-?\d+)")
SKIPPED = ("syntax", "package", "import", "option", "reserved", "extensions")


def declared(text):
    """(kind, scope, name, number, label, type) of each field and each enum value."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"\[[^\]]*\]", "", text)
    scopes, pos = [], 0
    for match in re.finditer(r"[;{}]", text):
        statement, pos = text[pos:match.start()].strip(), match.end()
        if match.group(0) == "{":
            words = statement.split() or ["?", "?"]
            scopes.append((words[0], words[-1]))
        elif match.group(0) == "}":
            scopes.pop()
        elif scopes and statement.split(None, 1)[0] not in SKIPPED:
            kind = scopes[-1][0]
            scope = ".".join(name for k, name in scopes if k in ("message", "enum"))
            if kind == "enum":
                found = VALUE.fullmatch(statement)
                yield ("value", scope, found.group(1), int(found.group(2)), "", "")
            elif kind in ("message", "oneof"):
                found = FIELD.fullmatch(statement)
                yield ("field", scope, found.group(3), int(found.group(4)),
                       found.group(1) or "optional", found.group(2).split(".")[-1])


def table(fields, enums):
    """What the tables say: (kind, scope, name) to number, label and the type's last word."""
    known = {}
    for row in fields.strip().split("\n")[1:]:
        _, scope, name, number, label, kind = row.split("\t")[:6]
        known["field", scope, name] = (int(number), label, kind.split(".")[-1])
    for row in enums.strip().split("\n")[1:]:
        _, scope, name, number = row.split("\t")[:4]
        known["value", scope, name] = (int(number), "", "")
    return known


def check(name, text, known):
    entries = list(declared(text))
    own = {type_name for _, _, _, number, _, type_name in entries if number >= OWN}
    for kind, scope, word, number, label, type_name in entries:
        if number >= OWN or scope.split(".")[-1] in own:
            continue
        want = known.get((kind, scope, word))
        if want and type_name == "bytes" and want[2][0].isupper():
            type_name = want[2]
        if want is None:
            yield f"{name}: {scope}.{word} = {number}: not in docs/abi/fields.tsv or enums.tsv"
        elif want != (number, label, type_name):
            yield f"{name}: {scope}.{word}: {label} {type_name} = {number}, but the table has {want}"


def self_test():
    known = table("head\nf\tA.B\tx\t1\toptional\tuint32\tfalse\nf\tA\tb\t2\trepeated\tA.B\tfalse\n",
                  "head\nf\tA.E\tONE\t1\tfalse\n")
    good = ["message A { message B { optional uint32 x = 1 [packed = true]; } repeated B b = 2; }",
            "message A { enum E { ONE = 1; } oneof o { B own = 50001; } reserved 7; } // y z = 9;",
            "message A { message Own { optional bool x = 1; } optional Own o = 50002; }",
            "message A { repeated bytes b = 2; }"]
    bad = ["message A { message B { optional uint32 x = 2; } }", "message A { optional B b = 2; }",
           "message A { message B { optional int32 x = 1; } }", "message A { enum E { ONE = 2; } }",
           "message A { oneof o { B unknown = 3; } }", "message C { optional uint32 x = 1; }"]
    wrong = [t for t in bad if not list(check("x", t, known))]
    wrong += [t for t in good if list(check("x", t, known))]
    for w in wrong:
        print(f"schema self-test: judged wrongly: {w!r}")
    print(f"schema self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    KNOWN = table(csource.read("docs/abi/fields.tsv"), csource.read("docs/abi/enums.tsv"))
    NAMES = [n for n in csource.files(".proto") if n.startswith("proto/perfetto/")]
    csource.finish("schema", [p for n in NAMES for p in check(n, csource.read(n), KNOWN)], len(NAMES))
