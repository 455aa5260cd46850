#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when the schema of the programs' settings, their manual pages (of program and file), their --help
and their examples do not name the same keys and defaults. `--self-test` proves that each is found.
"""
import os
import re
import sys

import csource

SCHEMA = "proto/perfleet/config.proto"
DAEMONS = {  # message: source of --help, manual pages (NAME.8.md, NAME.conf.5.md), example
    "ServiceConfig": ("service/main.c", "docs/man/perfleetd", "deploy/conf/perfleetd.conf"),
    "ProbesConfig": ("agent/probes/main.c", "docs/man/perfleet-probes", "deploy/conf/probes.conf"),
    "AgentConfig": ("agent/daemon/main.c", "docs/man/perfleet-agent", "deploy/conf/agent.conf"),
    "CollectorConfig": ("collector/main.c", "docs/man/perfleet-collector", "deploy/conf/collector.conf"),
    "RelayConfig": ("relay/main.c", "docs/man/perfleet-relay", "deploy/conf/relay.conf"),
}
# The operator's program: its flags are checked by the manuals' gate.
OPERATOR = ("OperatorConfig", "docs/man/perfleet.conf.5.md", "deploy/conf/perfleet.conf")
OF_ALL = ("config", "check_config", "dump_config", "help", "version")
MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^  (optional|repeated) (\w+) (\w+) = \d+(?: \[default = (.*)\])?;$", re.M)
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+?) \|", re.M)
EXAMPLE = re.compile(r"^(#{0,2})(\w+): (.+)$", re.M)


def schema_of(text):
    return {name: {key: (kind, default or {"bool": "false"}.get(kind, ""))
                   for _, kind, key, default in FIELD.findall(body)}
            for name, body in MESSAGE.findall(text)}


def flags_in(text):
    return {f.replace("-", "_") for f in re.findall(r"--([a-z][a-z0-9-]*)", text)}


def check_file_page(keys, page):
    """The table of the file's page: a row for each key, with its default."""
    rows = dict(ROW.findall(page))
    for key in sorted(set(keys) ^ set(rows)):
        yield f"the file's manual page {'has a key that is none' if key in rows else 'has no row for'}: {key}"
    for key in sorted(set(keys) & set(rows)):
        default = f"`{keys[key][1]}`" if keys[key][1] else "none"
        if rows[key] != default:
            yield f"the file's manual page has {rows[key]} as the default of {key}, the schema {default}"


def check(keys, usage, manual, example):
    known = set(keys) | set(OF_ALL)
    for key in sorted(known):
        if key not in flags_in(usage):
            yield f"--help does not name --{key.replace('_', '-')}"
        if f"`--{key.replace('_', '-')}`" not in manual:
            yield f"the manual page does not name `--{key.replace('_', '-')}`"
    yield from check_example(keys, example)


def check_example(keys, example):
    for mark, key, value in EXAMPLE.findall(example):
        if key not in keys:
            yield f"the example has {key}, the schema has not"
        elif mark == "#" and value != keys[key][1]:
            yield f"the example's default of {key} is {value}, the schema's {keys[key][1] or 'none'}"
        elif mark == "##" and keys[key][1]:
            yield f"the example should show the default of {key}, {keys[key][1]}, after one #"
    named = {key for _, key, _ in EXAMPLE.findall(example)}
    for key in sorted(set(keys) - named):
        yield f"the example does not show {key}"


def self_test():
    keys = {"a_b": ("uint32", "3"), "c": ("string", "")}
    of_all = "".join(f"--{f.replace('_', '-')} " for f in OF_ALL)
    of_all_man = "".join(f"`--{f.replace('_', '-')}`" for f in OF_ALL)
    good = (keys, of_all + "--a-b --c", of_all_man + "`--a-b` `--c`", '# prose: x\n#a_b: 3\n##c: "x"\n')
    bad = [(keys, of_all + "--c", good[2], good[3]), (keys, good[1], of_all_man + "`--c`", good[3]),
           (keys, good[1], good[2], '##c: "x"\n'), (keys, good[1], good[2], '#a_b: 4\n##c: "x"\n'),
           (keys, good[1], good[2], good[3] + "#d: 1\n"), (keys, good[1], good[2], '##a_b: 3\n##c: 1\n')]
    wrong = [b for b in bad if not list(check(*b))] + [g for g in [good] if list(check(*g))]
    page = "| `a_b` | number | `3` | x |\n| `c` | text | none | y |\n"
    bad_pages = [page[:30], page.replace("`3`", "`4`"), page + "| `d` | text | none | z |\n"]
    wrong += [p for p in bad_pages if not list(check_file_page(keys, p))] + list(check_file_page(keys, page))
    for w in wrong:
        print(f"config_keys self-test: judged wrongly: {w!r}")
    print(f"config_keys self-test: {len(bad) + len(bad_pages) + 2} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    SCHEMAS = schema_of(csource.read(SCHEMA))
    PROBLEMS = [f"{SCHEMA}: no daemon is known for {m}" for m in set(SCHEMAS) - set(DAEMONS) - {OPERATOR[0]}]
    PROBLEMS += [f"{OPERATOR[0]}: {p}" for check_one, where in ((check_file_page, OPERATOR[1]), (check_example, OPERATOR[2]))
                 for p in check_one(SCHEMAS.get(OPERATOR[0], {}), csource.read(where))]
    for message, (main, manual, example) in DAEMONS.items():
        PROBLEMS += [f"{message}: {p}" for p in check(
            SCHEMAS.get(message, {}), csource.read(main), csource.read(manual + ".8.md"), csource.read(example))]
        PROBLEMS += [f"{message}: {p}" for p in check_file_page(
            SCHEMAS.get(message, {}), csource.read(manual + ".conf.5.md"))]
    csource.finish("config_keys", PROBLEMS, len(DAEMONS))
