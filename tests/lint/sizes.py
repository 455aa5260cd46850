#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on files of more than 900 lines, functions of more than 60, more than 5 parameters, or
blocks nested deeper than 3 (docs/style.md section 1). Names files of more than 600 lines, which may
be: an object stays whole. `--self-test` proves that each is found.
"""
import re
import sys

import csource

LONG_FILE, MAX_FILE, MAX_FUNCTION, MAX_PARAMS, MAX_NESTING = 600, 900, 60, 5, 3
# A callback with its user pointer and a vector with its length are each one thing.
SIX_PARAMS = {"pfl_rpc_client_invoke", "pfl_rpc_host_reply"}
# What a library calls, or would have done itself, has the library's parameters.
LIBRARY_PARAMS = {"on_secret", "on_master_secret", "take_header", "take_data", "give_data", "mbedtls_chachapoly_encrypt_and_tag",
                  "mbedtls_chachapoly_auth_decrypt", "mbedtls_x509_crt_verify_restartable", "mbedtls_pk_verify_ext"}
CONTROL = {"if", "for", "while", "switch"}
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def matching_open(code, close):
    depth = 0
    for i in range(close, -1, -1):
        depth += {")": 1, "(": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return -1


def before(code, pos):
    """Index of the last character before pos that is not blank."""
    pos -= 1
    while pos >= 0 and code[pos].isspace():
        pos -= 1
    return pos


def word_before(code, pos):
    end = before(code, pos)
    found = re.search(r"[A-Za-z_]\w*$", code[max(0, end - 60):end + 1])
    return found.group(0) if found else ""


def is_block(code, brace):
    """Whether the brace opens statements, not an initializer or a compound literal."""
    last = before(code, brace)
    if last < 0 or code[last] in ";{}:":
        return True
    if code[last] == ")":
        word = word_before(code, matching_open(code, last))
        return word in CONTROL or word.isupper()
    return word_before(code, brace) in ("else", "do")


def parameters(code, close):
    inside = code[matching_open(code, close) + 1:close]
    depth = count = 0
    for c in inside:
        depth += {"(": 1, ")": -1}.get(c, 0)
        count += c == "," and depth == 0
    return 0 if inside.strip() in ("", "void") else count + 1


def body_of(code, brace):
    """(end index, deepest block) of the function whose body opens at brace."""
    stack, deepest, blocks = [], 0, 0
    for i in range(brace, len(code)):
        if code[i] == "{":
            block = bool(stack) and (stack[-1] or len(stack) == 1) and is_block(code, i)
            stack.append(block)
            blocks += block
            deepest = max(deepest, blocks)
        elif code[i] == "}":
            blocks -= stack.pop()
            if not stack:
                return i, deepest
    return len(code) - 1, deepest


def functions(text):
    """(name, line, lines, parameters, depth of blocks) of each function that a file defines."""
    code = PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), csource.code_only(text))
    pos = 0
    while (brace := code.find("{", pos)) >= 0:
        end, deepest = body_of(code, brace)
        close = before(code, brace)
        pos = end + 1
        if close < 0 or code[close] != ")":
            continue
        yield (word_before(code, matching_open(code, close)), code.count("\n", 0, brace),
               code.count("\n", brace, end) + 1, parameters(code, close), deepest)


def check(name, text):
    problems = []
    lines = text.count("\n")
    if lines > MAX_FILE:
        problems.append(f"{name}: {lines} lines, at most {MAX_FILE}")
    for function, line, length, count, deepest in functions(text):
        for value, limit, what in ((length, MAX_FUNCTION, "lines"),
                                   (count, MAX_PARAMS + (function in SIX_PARAMS) +
                                    4 * (function in LIBRARY_PARAMS), "parameters"),
                                   (deepest, MAX_NESTING, "levels of blocks")):
            if value > limit:
                problems.append(f"{name}:{line}: {function}: {value} {what}, at most {limit}")
    return problems


def self_test():
    deep = "if (a) {" * 4 + "}" * 4
    bad = ["x;\n" * 901, "int f(void)\n{\n" + "x;\n" * 60 + "}\n",
           "int f(int a, int b, int c, int d, int e, int g)\n{\n}\n", "int f(void)\n{\n" + deep + "}\n",
           "int f(void) {" + "PFL_LIST_EACH (a, b) {" * 4 + "}" * 4 + "}"]
    good = ["int f(int a, int b, int (*c)(int, int), int d, int e)\n{\n}\n",
            "int f(void) { struct a b = {{{{{1}}}}}; g(&(struct a){{{1}}}); }",
            "x;\n" * 900,
            "static const int t[] = {\n" + "1,\n" * 100 + "};\n"]
    wrong = [t for t in bad if not check("x.c", t)] + [t for t in good if check("x.c", t)]
    for w in wrong:
        print(f"sizes self-test: judged wrongly: {w[:60]!r}")
    print(f"sizes self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    TEXTS = {n: csource.read(n) for n in csource.files(".c", ".h")}
    for long, count in ((n, t.count("\n")) for n, t in TEXTS.items()):
        if LONG_FILE < count <= MAX_FILE:
            print(f"{long}: {count} lines: does it hold one object?")
    csource.finish("sizes", [p for n, t in TEXTS.items() for p in check(n, t)], len(TEXTS))
