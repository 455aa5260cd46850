# SPDX-License-Identifier: Apache-2.0
"""Programs of ProtoVMs and packets for them (docs/abi/protovm.md): some by hand, many by chance. What
a seed gives never changes: its outcomes are recorded."""
from service_peers import field, varint

SRC, DST, BOTH = 1, 2, 3
SKIP, BREAK, ABORT = 1, 2, 3


def number(at, value):
    return varint(at << 3) + varint(value)


def fixed(at, value, size):
    return varint(at << 3 | (5 if size == 4 else 1)) + value.to_bytes(size, "little")


# --- instructions ---

def program(*instructions, version=None):
    return (number(1, version) if version is not None else b"") + b"".join(
        field(2, i) for i in instructions)


def instruction(what, body=b"", nested=(), level=None):
    return field(what, body) + (number(6, level) if level is not None else b"") + b"".join(
        field(7, i) for i in nested)


def select(path, *nested, cursor=None, creates=False, level=None):
    body = (number(1, cursor) if cursor is not None else b"") + b"".join(
        field(2, step) for step in path) + (number(3, 1) if creates else b"")
    return instruction(1, body, nested, level)


def load(register, cursor=None, nested=(), level=None):
    return instruction(2, (number(1, cursor) if cursor is not None else b"") + number(2, register),
                       nested, level)


def merge(skip=False, delete=False, nested=(), level=None):
    return instruction(3, (number(1, 1) if skip else b"") + (number(2, 1) if delete else b""),
                       nested, level)


def put(nested=(), level=None):
    return instruction(4, b"", nested, level)


def delete(nested=(), level=None):
    return instruction(5, b"", nested, level)


def step(at):
    return number(1, at)


def each(at):
    return number(1, at) + number(5, 1)


def index(at):
    return number(2, at)


def key(at, register):
    return number(3, at) + number(6, register)


# --- by hand: a table of objects, as the first users of VMs have them ---

# Packet: for_testing (900) { 6 { 1: string, 2: number, 3: object, 4: objects, 5: ids to delete } };
# an object { 1: id, 2: { 1: number }, 3: string }. State: for_testing { 7 { the same fields } }.
PATCH, STATE = [step(900), step(6)], [step(900), step(7)]
OBJECTS = program(
    select(PATCH + [step(1)], select(STATE + [step(1)], put(), cursor=DST, creates=True), level=SKIP),
    select(PATCH + [step(2)], select(STATE + [step(2)], put(), cursor=DST, creates=True), level=SKIP),
    select(PATCH + [step(3)], select(STATE + [step(3)], merge(), cursor=DST, creates=True), level=SKIP),
    select(PATCH + [each(5)], load(0),
           select(STATE + [step(4), key(1, 0)], delete(), cursor=DST, level=SKIP), level=SKIP),
    select(PATCH + [each(4)],
           select([step(1)], load(0)),
           select(STATE + [step(4), key(1, 0)],
                  select([step(2)], select([step(2)], merge(), cursor=DST, creates=True), level=SKIP),
                  merge(skip=True), cursor=DST, creates=True), level=SKIP),
    version=1)


# A state that readers show: a trigger (46) with the packet's string as its name, at the packet's time (8).
TRIGGER = program(
    select(PATCH + [step(1)], select([step(46), step(1)], put(), cursor=DST, creates=True), level=SKIP),
    select([step(8)], select([step(8)], put(), cursor=DST, creates=True), level=SKIP))


def patch(string=None, value=None, single=None, objects=(), deleted=()):
    out = field(1, string) if string is not None else b""
    out += number(2, value) if value is not None else b""
    out += field(3, single) if single is not None else b""
    out += b"".join(field(4, o) for o in objects) + b"".join(number(5, d) for d in deleted)
    return field(900, field(6, out))


def thing(ident, value=None, name=None):
    return number(1, ident) + (field(2, number(1, value)) if value is not None else b"") + (
        field(3, name) if name is not None else b"")


# --- by chance ---

class Chance:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1

    def below(self, limit):
        self.state = self.state + 0x9E3779B97F4A7C15 & (1 << 64) - 1
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        return (z ^ z >> 31) % limit

    def one_in(self, times):
        return self.below(times) == 0

    def choose(self, what):
        return what[self.below(len(what))]


def some_level(chance):
    return chance.choose([None, SKIP, SKIP, SKIP, SKIP, BREAK, ABORT if chance.one_in(4) else SKIP, 9])


def some_path(chance, cursor):
    path = []
    for _ in range(1 + chance.below(2)):
        at = 1 + chance.below(5)
        if chance.one_in(4) and cursor != BOTH or chance.one_in(20):
            path.append(each(at))
            continue
        path.append(step(at))
        if chance.one_in(5):
            path.append(index(chance.below(3)))
        elif cursor != SRC and chance.one_in(3) or chance.one_in(30):
            path.append(key(1, chance.below(2)))
    if chance.one_in(60):
        path.insert(0, index(0))  # makes no sense
    return path


def some_nested(chance, depth, is_inside):
    return [some_instruction(chance, depth + 1, is_inside) for _ in range(chance.below(3))]


def some_instruction(chance, depth, is_inside):
    """`is_inside`: the destination is no longer the root, which must not become a number."""
    what = chance.below(12) if depth < 5 else 6 + chance.below(6)
    level = some_level(chance)
    if what < 6:
        cursor = chance.choose([None, SRC, DST, DST, DST, BOTH])
        inside = is_inside or cursor in (DST, BOTH)
        path = some_path(chance, cursor or SRC)
        if chance.one_in(25):
            path, inside = [], is_inside
        nested = [some_instruction(chance, depth + 1, inside) for _ in range(1 + chance.below(3))]
        creates = cursor in (DST, BOTH) and not chance.one_in(3) or chance.one_in(40)
        return select(path, *nested, cursor=cursor, creates=creates, level=level)
    nested = some_nested(chance, depth, is_inside) if chance.one_in(4) else ()
    if what == 6 or what == 7:
        return load(chance.below(2) if not chance.one_in(40) else 31 + chance.below(3),
                    chance.choose([None, None, DST]), nested, level)
    if what == 8 and depth > 0 and chance.one_in(2):
        return delete(nested, level)
    if what <= 10 and is_inside:
        return put(nested, level)
    return merge(chance.one_in(3), chance.one_in(4), nested, level)


def some_program(chance):
    return program(*[some_instruction(chance, 0, False) for _ in range(2 + chance.below(5))])


def some_message(chance, depth):
    out = b""
    for _ in range(1 + chance.below(5)):
        at = 1 + chance.below(5)
        what = chance.below(10)
        if depth < 4 and what < 5:
            out += field(at, number(1, chance.below(4)) + some_message(chance, depth + 1))
        elif what < 7:
            out += number(at, chance.choose([0, 1, 2, 3, 300, 1 << 40]))
        elif what == 7:
            out += fixed(at, chance.below(1000), chance.choose([4, 8]))
        else:
            out += field(at, chance.choose(["", "a", "some text", "\x08\x01"]))
    if chance.one_in(30):
        out += b"\x0f"  # no field
    return out


def some_case(seed):
    """(program, packets): the packets are short enough that a state stays below 3 KiB."""
    chance = Chance(seed)
    return some_program(chance), [some_message(chance, 0)[:700] for _ in range(1 + chance.below(8))]
