# SPDX-License-Identifier: Apache-2.0
"""The part of docs.py that reads names: a file, a folder, a test or a symbol of the repository that a
document names in backticks, and a path or a test program in its blocks of commands, must be there.

A file may be named by its path, by the end of its path, relative to the document, without its suffix
(`base/mem`), or by a pattern (`*_port.c`). A test may have its folder's name in front
(`producer_writer_kill_test` is the writer_kill_test.c in a folder of tests/unit/producer). docs/lab, which is
history, and docs/style.md are exempt.
"""
import fnmatch
import os
import re

import csource

HISTORY = re.compile(r"docs/lab/|docs/style\.md$")
FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
SOURCE = re.compile(r"[\w*-][\w.*-]*\.(c|h|py|sh|proto|tsv|cmake|md)$")
PATH = re.compile(r"\.{0,2}[\w*-][\w.*-]*(/[\w.*-]+)+/?$|[\w-]+/$")
# A path in a block of commands, with nothing of a longer path or a web address in front.
COMMAND_PATH = re.compile(r"(?<![\w./~$}-])((?:\w+/)+[\w.-]+\.(?:c|h|py|sh|proto|md|cmake))\b")
PROGRAM = re.compile(r"\bbuild/\w+/(?:tests|fuzz)/(\w+)")
TEST = re.compile(r"(?:unit\.|fuzz\.)?(\w+_(?:test|fuzz))(?:\.sh)?$")
SYMBOL = re.compile(r"(?:(?:struct|enum|union) )?((?:pfl|PFL|perfleet)_\w+)(\*?)(?:\(.*\))?$")
# Paths of Perfetto's tree, placeholders, and a program of dynolog.
ELSEWHERE = re.compile(r"(protos|src|include|ui|tools|python)/|.*\b(NAME|NNNN|NUMBER|FILE|FOLDER)\b|"
                       r".*<.*>|pfl_x\b|unitrace\.py$")


class Tree:
    """What there is to be named."""

    def __init__(self, files, sources):
        self.paths = set(files)
        for name in files:
            while "/" in name:
                name = name.rsplit("/", 1)[0]
                self.paths.add(name)
        self.tops = {name.split("/")[0] for name in files if "/" in name}
        self.ends = {path[start:] for path in self.paths
                     for start in (m.end() for m in re.finditer(r"^|/", path))}
        self.ends |= {os.path.splitext(end)[0] for end in self.ends}
        self.tests = {os.path.splitext(os.path.basename(n))[0] for n in files if n.startswith("tests/")}
        self.tests |= {f"{folder}_{os.path.splitext(os.path.basename(n))[0]}"
                       for n in files if n.startswith("tests/unit/") for folder in n.split("/")[2:-1]}
        self.words = set(re.findall(r"\w+", sources))

    def has_path(self, path, folder):
        path = path.rstrip("/")
        if "*" in path:
            return any(fnmatch.fnmatch(end, path) for end in self.ends)
        return path in self.ends or os.path.normpath(os.path.join(folder, path)) in self.paths

    def has_symbol(self, symbol, is_prefix):
        if is_prefix or symbol.endswith("_"):
            return any(word.startswith(symbol) for word in self.words)
        return symbol in self.words


def is_path(span, tree):
    return SOURCE.match(span) or (PATH.match(span) and span.lstrip("./").split("/")[0] in tree.tops)


def newest(name, text):
    """A change log counts down to its second heading: the rest is history."""
    parts = re.split(r"^## ", text, maxsplit=2, flags=re.M)
    return "## ".join(parts[:2]) if os.path.basename(name) == "CHANGELOG.md" else text


def missing(name, text, tree):
    if HISTORY.match(name):
        return
    text, folder = newest(name, text), os.path.dirname(name)
    prose = FENCED.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    named = [(m.start(), m.group(1).strip()) for m in SPAN.finditer(prose)]
    for pos, span in named:
        test, symbol = TEST.match(span), SYMBOL.match(span)
        if ELSEWHERE.match(span):
            continue
        if (test and test.group(1) not in tree.tests) or \
                (symbol and not test and not tree.has_symbol(symbol.group(1), symbol.group(2))) or \
                (is_path(span, tree) and not tree.has_path(span, folder)):
            yield f"{name}:{text.count(chr(10), 0, pos) + 1}: there is no {span}"
    for block in FENCED.finditer(text):
        for match in COMMAND_PATH.finditer(block.group(0)):
            if match.group(1).split("/")[0] in tree.tops and not tree.has_path(match.group(1), folder):
                yield f"{name}: a block of commands: there is no {match.group(1)}"
        for program in PROGRAM.findall(block.group(0)):
            if program not in tree.tests and program not in tree.words:
                yield f"{name}: a block of commands: there is no {program}"


def self_test():
    """(texts judged wrongly, the number of cases)."""
    tree = Tree(["base/mem.c", "base/mem.h", "tests/unit/producer/shared_memory/writer_kill_test.c", "relay/hub/hub_port.c",
                 "tests/fuzz/frame_fuzz.c", "docs/a/b.md"], "pfl_mem_zalloc PFL_MAX_HOSTS")
    bad = ["`base/gone.c`", "`gone.c`", "`base/gone/`", "`relay/hubs`", "`ring_buffer_test`",
           "`pfl_mem_gone`", "`struct pfl_gone`", "`PFL_GONE_*`", "`*_gone.c`", "`pfl_gone_*`",
           "```sh\nbuild/dev/tests/gone_test\n```", "```sh\npython3 base/gone.py\n```", "`gone_fuzz`"]
    good = ["`base/mem.c` `mem.h` `base/mem` `relay/hub/` `hub/hub_port.c`", "`producer_writer_kill_test`",
            "`writer_kill_test` `frame_fuzz` `unit.writer_kill_test`", "`pfl_mem_zalloc()` `PFL_MAX_*` `pfl_mem_*`",
            "`*_port.c`", "`src/tracing/x.h`", "`docs/man/NAME.md`", "`/etc/perfleet/gone.conf`",
            "```sh\nbuild/dev/tests/writer_kill_test /tmp/base/gone.c\n```", "`a/b.md`", "`and/or`"]
    wrong = [t for t in bad if not list(missing("docs/x.md", t, tree))]
    wrong += [t for t in good if list(missing("docs/x.md", t, tree))]
    log = "# Log\n\n## New\n`base/mem.c`\n\n## Old\n`gone.c`\n"
    wrong += [log] if list(missing("CHANGELOG.md", log, tree)) else []
    return wrong, len(bad) + len(good) + 1


def of_repository():
    code = csource.files(".c", ".h", ".proto", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in", ".tsv",
                         "/run", ".yaml")
    return Tree(csource.files(""), "\n".join(csource.read(n) for n in code))
