# SPDX-License-Identifier: Apache-2.0
"""The one-token mutants of C text: in the bodies of functions, outside comments, strings, preprocessor
lines, assertions and calls of the log.

It reads tokens, not grammar. clang-format's layout tells the rest: an operator of two operands has a
blank on either side, a pointer's star or a sign has not.
"""
import collections
import hashlib
import re

# start, end: the piece of the text that `after` replaces.
# number: among the mutants of the function that make the same change, from 1.
Mutant = collections.namedtuple("Mutant", "name function before after number start end line")

TOKEN = re.compile(r"""
    (?P<skip>\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<text>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S | re.M)
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)$")
OTHERS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
          "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",),
          "<<": (">>",), ">>": ("<<",), "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "%=": ("*=",),
          "<<=": (">>=",), ">>=": ("<<=",)}
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="}
NOT_JUDGED = re.compile(r"assert$|_Static_assert$|static_assert$|pfl_log_\w+$|PFL_LOG\w*$")
OPENING, CLOSING = "([{", ")]}"


def tokens_of(text):
    """(kind, text, start, end), without what is skipped."""
    return [(m.lastgroup, m.group(0), m.start(), m.end()) for m in TOKEN.finditer(text) if m.lastgroup != "skip"]


def pairs_of(tokens):
    """The index of the bracket that closes each opening one."""
    pairs, open_ones = {}, []
    for at, (kind, word, _, _) in enumerate(tokens):
        if kind == "sign" and word in OPENING:
            open_ones.append(at)
        elif kind == "sign" and word in CLOSING and open_ones:
            pairs[open_ones.pop()] = at
    return pairs


def judged(tokens, pairs):
    """The function and the index of each token of functions' bodies, without assertions and the log."""
    opens = {close: begin for begin, close in pairs.items()}
    at = 0
    while at < len(tokens):
        word = tokens[at][1]
        if word == "{" and at in pairs:
            if tokens[at - 1][1] == ")":
                function = tokens[opens[at - 1] - 1][1]
                yield from ((function, i) for i in body(tokens, pairs, at))
            at = pairs[at]
        at += 1


def body(tokens, pairs, begin):
    at, hints = begin + 1, set()  # what a __builtin_expect expects changes no result
    while at < pairs[begin]:
        if tokens[at][1] == "__builtin_expect":
            hints.add(pairs[at + 1] - 1)
        if tokens[at][0] == "word" and NOT_JUDGED.match(tokens[at][1]) and at + 1 in pairs:
            at = pairs[at + 1]
        elif at not in hints:
            yield at
        at += 1


def constants(word):
    """What an integer, as it is written, may become."""
    found = INTEGER.match(word)
    if found is None:
        return []
    digits, suffix = found.groups()
    hexadecimal = digits[:2] in ("0x", "0X")
    value = int(digits, 16 if hexadecimal else 8 if digits[0] == "0" else 10)
    return [(hex(v) if hexadecimal else str(v)) + suffix for v in (value - 1, value + 1) if v >= 0]


def in_returns(tokens, at):
    """What stands in `return X;` in the place of X."""
    if tokens[at - 1][1] != "return" or tokens[at + 1][1] != ";":
        return []
    kind, word = tokens[at][:2]
    if kind == "word" and (word == "rc" or word.startswith("PFL_E")):
        return ["0"]
    return ["-1"] if word == "0" else []


def assignment(tokens, pairs, at):
    """The index of the `;` of an assignment that begins here and is a statement of its own."""
    if tokens[at - 1][1] not in (";", "{", "}", ")", "else", "do", ":"):
        return None
    here = at
    while tokens[here][1] == "*":
        here += 1
    if tokens[here][0] != "word":
        return None
    here += 1
    while tokens[here][1] in ("->", ".", "["):
        here = pairs[here] + 1 if tokens[here][1] == "[" else here + 2
    if tokens[here][1] not in ASSIGNS:
        return None
    while tokens[here][1] != ";":
        if here in pairs:
            here = pairs[here]
        elif tokens[here][1] in (")", ",", "}"):
            return None  # of a for loop's head, or of a list
        here += 1
    return here


def replacements(text, tokens, pairs, at):
    """(start, end, what stands there instead)"""
    kind, word, start, end = tokens[at]
    instead = []
    if kind == "number":
        instead = constants(word) + in_returns(tokens, at)
    elif kind == "word":
        instead = {"true": ["false"], "false": ["true"]}.get(word, []) + in_returns(tokens, at)
        if word in ("break", "continue") and tokens[at + 1][1] == ";":
            instead = ["(void)0"]
    elif word == "!":
        instead = [""]
    elif word in OTHERS and text[start - 1].isspace() and text[end].isspace():
        instead = OTHERS[word]
    for other in instead:
        yield start, end, other
    last = assignment(tokens, pairs, at)
    if last is not None:
        yield start, tokens[last][2], "(void)0"


def heads_of_loops(tokens, pairs):
    """The tokens between a for loop's brackets: an assignment there is no statement."""
    return {i for at, close in pairs.items() if tokens[at - 1][1] == "for" for i in range(at, close)}


def find(name, text):
    """All mutants of a file, in the order of the text."""
    tokens = tokens_of(text)
    pairs = pairs_of(tokens)
    heads = heads_of_loops(tokens, pairs)
    mutants, same = [], collections.Counter()
    for function, at in judged(tokens, pairs):
        for start, end, after in replacements(text, tokens, pairs, at):
            if at in heads and after == "(void)0":
                continue
            before = " ".join(text[start:end].split())
            same[function, before, after] += 1
            line = text.count("\n", 0, start) + 1
            mutants.append(Mutant(name, function, before, after, same[function, before, after], start, end, line))
    return mutants


def key(mutant):
    """The same in each version of the file whose function has the change at the same place."""
    return "\t".join((mutant.name, mutant.function, mutant.before, mutant.after, str(mutant.number)))


def shuffled(mutants, seed):
    """In an order that depends on the seed and the mutants' keys: other files change it little."""
    return sorted(mutants, key=lambda m: hashlib.sha256(("%d %s" % (seed, key(m))).encode()).digest())


def apply(mutant, text):
    """The mutant's text. Lines keep their numbers."""
    lines = "\n" * text.count("\n", mutant.start, mutant.end)
    return text[:mutant.start] + mutant.after + lines + text[mutant.end:]
