#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a protobuf field number that has no name from the schema, where a field is read or written:
a literal, or an enumerator or #define that a file gives a number of its own. The schema's names are in
"perfetto/FILE.fields.h" (proto/README.md). An enumerator whose value is such a name is fine. Tests are
exempt: they are to say the bytes by themselves. Files that are not yet clean are in
tests/lint/baseline/fields.txt.

Usage: fields.py | --lower | --self-test
"""
import re
import sys

import baseline
import csource

READS = re.compile(r"\bpfl_reader_field\w*|\bpfl_vm_value_field\b|\bstruct pfl_field\b")
NUMBER = r"[1-9]\d*u?\b"
NAME = r"[A-Z][A-Z0-9_]*\b"
# Calls that take a field's number: as their first argument, or behind one that is the message.
CALLS = (r"\b(?:pfl_writer_field_\w+|pfl_(?:\w+_)?message_(?!init)\w+|(?:perfleet_)?put_(?:tag|uint|text|str)_?|"
         r"perfleet_(?:u?int|sint|bool|fixed\d\d|double|float|bytes|string|begin|packed_\w+)|"
         r"add_(?:bytes|text|varint)|get_(?:number|bytes|text)|find_bytes|last_of|next_of)"
         r"\((?:[^,()]|\([^()]*\))+, (?:\(\w+\))?|\b(?:varint|bytes|fixed\w*)_field_bytes\(")
TAG = r" << 3 \| (?:PFL_WIRE_\w+|[0125]u?\b)"


def uses(value, reads):
    """The patterns by which `value` is a field's number; group `v` is the value itself."""
    v = f"(?P<v>{value})"
    found = [rf"(?:{CALLS}){v}", rf"\b{v}{TAG}"]
    if reads:
        found += [rf"\bid [!=]= {v}", rf"\bfield [!=]= {v}"]
    return [re.compile(p) for p in found]


CASE = re.compile(rf"\bcase (?P<v>{NUMBER}|{NAME}):")
SWITCH = re.compile(r"\bswitch \((?:[^()]|\([^()]*\))*\bid\)")
OWN = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+({NAME})[ \t]+\(?{NUMBER}\)?[ \t]*$|\b({NAME}) = {NUMBER}(?=\s*[,}}])", re.M)
ENUM = re.compile(r"\benum(?: \w+)? \{[^{}]*\}")


def own_names(code):
    """Names to which this text gives a number by itself, in an enum or by #define."""
    defines = {m.group(1) for m in OWN.finditer(code) if m.group(1)}
    return defines | {m.group(2) for e in ENUM.finditer(code) for m in OWN.finditer(e.group(0)) if m.group(2)}


def check(name, text, shared=frozenset()):
    """`shared`: the names that headers give a number."""
    code = csource.code_only(text)
    reads = bool(READS.search(code))
    own = own_names(code) | shared
    found = {(m.start("v"), m.group("v")) for p in uses(NUMBER, reads) for m in p.finditer(code)}
    found |= {(m.start("v"), m.group("v")) for p in uses(NAME, reads) for m in p.finditer(code)
              if m.group("v") in own}
    for switch in SWITCH.finditer(code) if reads else ():
        end = code.find("\n}", switch.end()) % (len(code) + 1)
        found |= {(m.start("v"), m.group("v")) for m in CASE.finditer(code, switch.end(), end)
                  if m.group("v")[0].isdigit() or m.group("v") in own}
    for at, value in sorted(found):
        line = code.count("\n", 0, at) + 1
        yield f"{name}:{line}: {value}: name the field by the schema's .fields.h"


def self_test():
    read = "struct pfl_field f; "
    bad = [read + "if (f.id == 3) x();", "pfl_reader_field(&r, &f); switch (f.id) { case 12: }",
           read + "switch (f->id) { case NAME: }\n}\nenum { NAME = 4 };",
           "pfl_writer_field_varint(w, 4, v);", "pfl_message_begin(&m, 7);", "pfl_probe_message_uint(&m, 7, 1);",
           "perfleet_uint(w, 1, v);", "enum { KEY = 1 };\npfl_writer_field_bytes(&w, KEY, k, n);",
           "#define KEY 1u\nperfleet_begin(w, KEY);", "enum { A = 2, B = 3, };\nx = B << 3 | PFL_WIRE_BYTES;",
           "n = varint_field_bytes(1, page);", "p = put_uint(p, 4, v);", "x = get_number(part, 2, 0);",
           "enum kind { KEY = 7, };\n" + read + "if (f.id != KEY) x();", "perfleet_uint(f(x, y), 3, v);",
           "static const uint8_t a[] = {1 << 3 | PFL_WIRE_BYTES, 2};"]
    good = [read + "if (f.id == TRACE_CONFIG__BUFFERS) x();", "switch (n) { case 12: }",
            "pfl_writer_field_varint(w, TRACE_CONFIG__BUFFERS, 4);", "/* pfl_message_begin(&m, 7) */",
            read + "enum { LATE = 3 }; switch (f.id) { case A__B: }\n}\nswitch (kind) { case LATE: }",
            "enum { KEY = A__KEY };\npfl_writer_field_bytes(&w, KEY, k, n);",
            "enum { MAX = 4 };\nuint8_t x[MAX]; pfl_writer_field_varint(w, A__B, MAX);", "x = flags & 1 << 3;"]
    wrong = [t for t in bad if not list(check("x.c", t))] + [t for t in good if list(check("x.c", t))]
    wrong += [] if list(check("x.c", "perfleet_begin(w, KEY);", {"KEY"})) else ["a header's name"]
    for w in wrong:
        print(f"fields self-test: judged wrongly: {w!r}")
    print(f"fields self-test: {len(bad) + len(good) + 1} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = [n for n in csource.files(".c", ".h") if not n.startswith("tests/")]
    SHARED = frozenset().union(*(own_names(csource.code_only(csource.read(n))) for n in NAMES if n.endswith(".h")))
    baseline.run("fields", lambda n: check(n, csource.read(n), SHARED), NAMES)
