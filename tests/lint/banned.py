#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on banned calls (docs/style.md section 11) and on malloc, free and libuv's loops outside
their places, and on libuv's thread pool.

`--self-test` proves that each rule finds its case.
"""
import re
import sys

import csource

BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|atoi|atol|atoll|strtok|alloca|system|gets|"
                    r"popen|tmpnam|mktemp)\s*\(")
HEAP = re.compile(r"\b(malloc|calloc|realloc|reallocarray|free|strdup|strndup|aligned_alloc|"
                  r"posix_memalign|asprintf|vasprintf)\s*\(")
# The only files that may call the heap. The producer library keeps out of base/mem (threads); the
# replayer of fuzz corpora wants the sanitizer's own blocks.
HEAP_FILES = {"base/mem.c", "producer/platform/heap.c", "tests/support/fuzz_replay.c"}
# A loop that libuv makes by itself may have an io_uring: docs/adr/0029.
LOOP = re.compile(r"\b(uv_loop_init|uv_loop_new|uv_default_loop)\s*\(")
LOOP_FILES = {"base/io/loop.c"}
# One mechanism for what must leave the loop. The pool also aborts where no thread can be started;
# it only resolves names.
POOL = re.compile(r"\b(uv_queue_work|uv_fs_\w+|uv_random)\s*\(")
SPDX = "SPDX-License-Identifier: Apache-2.0"


def check(name, text):
    problems = []
    if SPDX not in text.split("\n", 1)[0]:
        problems.append(f"{name}:1: the first line is not the SPDX line")
    rules = [(BANNED, "is banned"), (POOL, "uses libuv's thread pool; base/io/worker.h has threads")]
    if name not in HEAP_FILES:
        rules.append((HEAP, "is called outside base/mem"))
    if name not in LOOP_FILES:
        rules.append((LOOP, "is called outside base/io/loop.c"))
    for number, line in enumerate(csource.code_only(text).split("\n"), 1):
        for rule, why in rules:
            problems += [f"{name}:{number}: {m.group(1)} {why}" for m in rule.finditer(line)]
    return problems


def self_test():
    spdx = f"/* {SPDX} */\n"
    bad = [("base/a.c", spdx + "strcpy(a, b);"), ("base/a.c", spdx + "x = atoi (s);"),
           ("service/a.c", spdx + "p = malloc(3);"), ("tests/a.c", spdx + "free(p);"),
           ("base/mem.c", spdx + "system(p);"), ("base/a.c", "int a;\n"),
           ("agent/a.c", spdx + "uv_loop_init(&loop);"), ("tests/a.c", spdx + "l = uv_default_loop();"),
           ("agent/a.c", spdx + "uv_queue_work(loop, w, a, b);"),
           ("base/io/loop.c", spdx + "rc = uv_fs_read(l, r, fd, b, 1, 0, cb);")]
    good = [("base/mem.c", spdx + "p = malloc(3);"), ("base/io/loop.c", spdx + "uv_loop_init(l);"),
            ("base/a.c", spdx + "/* malloc(3) */"),
            ("tunnel/a.c", spdx + "uv_getaddrinfo(l, r, cb, h, p, NULL);"),
            ("base/a.c", spdx + 'say("free(p)");'), ("base/a.c", spdx + "pfl_mem_free(p); my_free(p);")]
    wrong = [t for n, t in bad if not check(n, t)] + [t for n, t in good if check(n, t)]
    for w in wrong:
        print(f"banned self-test: judged wrongly: {w!r}")
    print(f"banned self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = csource.files(".c", ".h")
    csource.finish("banned", [p for n in NAMES for p in check(n, csource.read(n))], len(NAMES))
