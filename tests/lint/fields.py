#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a protobuf field number that is a literal, where a field is read or written: the schema's
names are in "perfetto/FILE.fields.h" (proto/README.md). Tests are exempt: they are to say the bytes by
themselves. Files that are not yet clean are in tests/lint/baseline/fields.txt.

Usage: fields.py | --lower | --self-test
"""
import re
import sys

import baseline
import csource

READS = re.compile(r"\bpfl_reader_field\b|\bstruct pfl_field\b")
READ = re.compile(r"\bcase [1-9]\d*:|\b(?:id|field) [!=]= [1-9]\d*\b")
WRITTEN = re.compile(r"\b(?:pfl_writer_field_\w+|pfl_(?:\w+_)?message_\w+|"
                     r"perfleet_(?:u?int|sint|bool|fixed\d\d|double|float|bytes|string|begin|packed_\w+)"
                     r")\([^,()]+, \d+\b")


def check(name, text):
    code = csource.code_only(text)
    for rule in (WRITTEN, READ) if READS.search(code) else (WRITTEN,):
        for match in rule.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match.group(0)}: name the field by the schema's .fields.h"


def self_test():
    bad = ["struct pfl_field f; if (f.id == 3) x();", "pfl_reader_field(&r, &f); switch (f.id) { case 12: }",
           "pfl_writer_field_varint(w, 4, v);", "pfl_message_begin(&m, 7);", "pfl_probe_message_uint(&m, 7, 1);", "perfleet_uint(w, 1, v);"]
    good = ["struct pfl_field f; if (f.id == TRACE_CONFIG__BUFFERS) x();", "switch (n) { case 12: }",
            "pfl_writer_field_varint(w, TRACE_CONFIG__BUFFERS, 4);", "/* pfl_message_begin(&m, 7) */"]
    wrong = [t for t in bad if not list(check("x.c", t))] + [t for t in good if list(check("x.c", t))]
    for w in wrong:
        print(f"fields self-test: judged wrongly: {w!r}")
    print(f"fields self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = [n for n in csource.files(".c", ".h") if not n.startswith("tests/")]
    baseline.run("fields", lambda n: check(n, csource.read(n)), NAMES)
