#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ProtoVMs of a tracing service. A line of TAP a claim:

    vm_check.py record FILE CONSUMER_SOCKET PRODUCER_SOCKET         writes what this service does
    vm_check.py check FILE NAME CONSUMER_SOCKET PRODUCER_SOCKET     does it do what was recorded?
    vm_check.py trace FILE CONSUMER_SOCKET PRODUCER_SOCKET          a trace for other programs to read
    vm_check.py join CONSUMER_SOCKET PRODUCER_SOCKET    writes the same into a session that is there already
    vm_check.py compare FIRST COUNT CONSUMER PRODUCER CONSUMER PRODUCER    do two the same for these seeds?

Producers bring programs, write packets that the ring overwrites, and the trace's protovms packet says
what came of them. Scenarios by hand are recorded as they are, programs by chance as digests."""
import hashlib
import json
import sys
import traceback

import config_text
import vm_programs as vm
from service_peers import Consumer, field, fields
from smb_producer import FROM_PREVIOUS, PAYLOAD, TO_NEXT, SmbProducer, fragments

PROTOVMS, FOR_TESTING = 125, 900
BUILTIN = "builtin_data_sources { disable_service_events: true disable_clock_snapshotting: true } "
BATCH = 50
RECORDED = 1000  # programs by chance


class Programmer(SmbProducer):
    """A producer whose data sources have programs: {name: program or None}."""

    def __init__(self, path, sources):
        super().__init__(path, "programmer")
        self.sources = sources
        self.buffer_of = {}
        self.initialize()
        self.listen()
        for name, program in sources.items():
            self.call("RegisterDataSource", field(1, field(1, name) + (
                field(10, program) if program is not None else b"")))

    def on_setup(self, setup):
        super().on_setup(setup)
        self.buffer_of[dict(fields(setup[2]))[1].decode()] = self.buffer

    def write_as(self, writer, source):
        """From here on chunks are this writer's, for this data source."""
        assert self.wait_for("start " + source), self.received
        self.begin_writer(writer, self.buffer_of[source])

    def chunk(self, *packets, flags=0):
        self.commit(self.move(self.put(fragments(*packets), len(packets), flags)))

    def overwrite(self, tag=1):
        """A chunk that takes a ring of 4 KiB for itself."""
        head = field(FOR_TESTING, field(1, "x" * (PAYLOAD - 16) + "%4d" % tag))
        self.chunk(head[:PAYLOAD - 2])


def dissect(data):
    """A message as nested lists, so that lengths of lengths do not count; what is none stays bytes."""
    try:
        parts = fields(data)
    except (ValueError, IndexError):
        return data.hex()
    if any(at == 0 for at, _ in parts) or not parts:
        return data.hex()
    return [[at, value if isinstance(value, int) else dissect(value)] for at, value in parts]


class World:
    def __init__(self, consumer_path, producer_path):
        self.consumer_path, self.producer_path = consumer_path, producer_path
        self.open = []

    def producer(self, sources):
        self.open.append(Programmer(self.producer_path, sources))
        return self.open[-1]

    def consumer(self, config=None):
        consumer = Consumer(self.consumer_path)
        self.open.append(consumer)
        if config is not None:
            why = consumer.enable(config_text.encode(BUILTIN + config))
            assert why is None, why
        return consumer

    def end(self, consumer):
        consumer.call("DisableTracing")
        consumer.settle()

    def read(self, consumer):
        """The protovms packets, and how many of the producers' packets there are."""
        described, others = [], 0
        for packet in consumer.packets():
            parts = dict(fields(packet))
            others += FOR_TESTING in parts
            if PROTOVMS in parts:
                described.append(self.describe(parts))
        return described + ["packets: %d" % others]

    def describe(self, packet):
        out = []
        for _, instance in fields(packet[PROTOVMS]):
            parts = {}
            for at, value in fields(instance):
                parts.setdefault(at, []).append(value)
            # Lengths may be written in more than one way, so both messages are taken apart.
            out.append({"program": [dissect(p) for p in parts.get(1, [])],
                        "state": [dissect(s) for s in parts.get(2, [])],
                        "limit": parts.get(3), "producers": parts.get(4, [])})
        return {"instances": out, "sequence": packet.get(10), "uid": 3 in packet}

    def close(self):
        for client in self.open:
            client.close()
        self.open = []


def config(*sources, limit=16, more=""):
    """A ring of 4 KiB for each data source."""
    out = ""
    for name in sources:
        out += "buffers { size_kb: 4 experimental_mode: TRACE_BUFFER_V2 %s } " % more
    for at, name in enumerate(sources):
        out += 'data_sources { config { name: "%s" target_buffer: %d %s } } ' % (
            name, at, "protovm_config { memory_limit_kb: %d }" % limit if limit is not None else "")
    return out


# --- by hand ---

def one(world, packets, limit=16, program=vm.OBJECTS):
    """One producer, whose packets are all overwritten, one after another."""
    producer = world.producer({"objects": program})
    consumer = world.consumer(config("objects", limit=limit))
    producer.write_as(1, "objects")
    for packet in packets:
        producer.chunk(packet)
    producer.overwrite()
    world.end(consumer)
    return world.read(consumer)


def nothing_is_overwritten(world):
    producer = world.producer({"objects": vm.OBJECTS})
    consumer = world.consumer(config("objects"))
    producer.write_as(1, "objects")
    producer.chunk(vm.patch("never lost"))
    world.end(consumer)
    return world.read(consumer)


def fields_are_set(world):
    return one(world, [vm.patch("one", 1), vm.patch("two"), vm.patch(value=3)])


def messages_are_merged(world):
    return one(world, [vm.patch(single=vm.thing(1, 2, "name")), vm.patch(single=vm.thing(5)),
                       vm.patch(single=vm.field(2, b"") + vm.number(9, 9) + vm.number(9, 8)),
                       vm.patch(single=vm.number(9, 7))])


def objects_are_kept_by_their_ids(world):
    return one(world, [vm.patch(objects=[vm.thing(7, 70, "seven"), vm.thing(3, 30)]),
                       vm.patch(objects=[vm.thing(5, 50, "five"), vm.thing(7, 71)]),
                       vm.patch(deleted=[3, 4]),
                       vm.patch(objects=[vm.thing(9), vm.thing(7, name="SEVEN")], deleted=[9])])


def a_packet_of_several_chunks_counts_once(world):
    producer = world.producer({"objects": vm.OBJECTS})
    consumer = world.consumer(config("objects"))
    producer.write_as(1, "objects")
    packet = vm.patch("a long one " + "." * 400, 12)
    producer.chunk(packet[:100], flags=TO_NEXT)
    producer.chunk(packet[100:300], flags=FROM_PREVIOUS | TO_NEXT)
    producer.chunk(packet[300:], vm.patch(value=13), flags=FROM_PREVIOUS)
    producer.chunk(vm.patch("is never complete")[:9], flags=TO_NEXT)
    producer.overwrite(1)
    producer.overwrite(2)
    world.end(consumer)
    return world.read(consumer)


def memory_ends(world):
    return one(world, [vm.patch("kept", 1), vm.patch("x" * 1500, 2), vm.patch("y" * 3000, 3),
                       vm.patch("small", 4)], limit=2)


def no_memory_at_all(world):
    return one(world, [vm.patch("one", 1)], limit=0)


def a_program_of_nothing(world):
    return one(world, [vm.patch("one", 1)], program=b"")


def without_limit_program_or_wish_there_is_no_vm(world):
    producer = world.producer({"with": vm.OBJECTS, "without": None, "unlimited": vm.OBJECTS})
    consumer = world.consumer(
        "buffers { size_kb: 4 experimental_mode: TRACE_BUFFER_V2 } "
        'data_sources { config { name: "with" } } '
        'data_sources { config { name: "without" protovm_config { memory_limit_kb: 4 } } } '
        'data_sources { config { name: "unlimited" protovm_config { } } }')
    producer.write_as(1, "with")
    producer.chunk(vm.patch("lost", 1))
    producer.overwrite()
    world.end(consumer)
    return world.read(consumer)


def two_producers_with_one_program(world):
    producers = [world.producer({"objects": vm.OBJECTS}) for _ in range(2)]
    consumer = world.consumer(config("objects"))
    for at, producer in enumerate(producers):
        producer.write_as(1, "objects")
        producer.chunk(vm.patch(objects=[vm.thing(at, at)]))
    producers[0].overwrite()
    world.end(consumer)
    return world.read(consumer)


def two_programs_of_one_data_source(world):
    other = vm.program(vm.select([vm.step(900), vm.step(6), vm.step(1)],
                                 vm.select([vm.step(900), vm.step(1)], vm.put(), cursor=vm.DST, creates=True)))
    producers = [world.producer({"objects": p}) for p in (vm.OBJECTS, other)]
    consumer = world.consumer(config("objects"))
    for at, producer in enumerate(producers):
        producer.write_as(1, "objects")
        producer.chunk(vm.patch("of %d" % at, at))
    producers[1].overwrite()
    world.end(consumer)
    return world.read(consumer)


def the_first_vm_that_takes_a_packet_has_it(world):
    picky = vm.program(vm.select([vm.step(900), vm.step(6), vm.step(2)],
                                 vm.select([vm.step(2)], vm.put(), cursor=vm.DST, creates=True)))
    producer = world.producer({"picky": picky, "objects": vm.OBJECTS})
    consumer = world.consumer(
        "buffers { size_kb: 4 experimental_mode: TRACE_BUFFER_V2 } "
        'data_sources { config { name: "picky" protovm_config { memory_limit_kb: 4 } } } '
        'data_sources { config { name: "objects" protovm_config { memory_limit_kb: 8 } } }')
    producer.write_as(1, "objects")
    producer.chunk(vm.patch("for the second"), vm.patch("for the first", 1))
    producer.overwrite()
    world.end(consumer)
    return world.read(consumer)


def it_is_told_once(world):
    producer = world.producer({"objects": vm.OBJECTS})
    consumer = world.consumer(config("objects"))
    producer.write_as(1, "objects")
    producer.chunk(vm.patch("lost"))
    producer.overwrite(1)
    out = world.read(consumer)
    producer.chunk(vm.patch("lost too"))
    producer.overwrite(2)
    world.end(consumer)
    return out + world.read(consumer)


def clone(world, more):
    producer = world.producer({"objects": vm.OBJECTS})
    source = world.consumer(config("objects", more=more) + 'unique_session_name: "vms"')
    producer.write_as(1, "objects")
    producer.chunk(vm.patch("before", 1))
    producer.overwrite(1)
    copy = world.consumer()
    copy.friends = [producer]
    answer = copy.call("CloneSession", field(4, "vms"))
    assert dict(fields(answer[1])).get(1), answer
    producer.chunk(vm.patch("after", 2))
    producer.overwrite(2)
    out = world.read(copy)
    world.end(source)
    return out + world.read(source)


def a_clone_has_the_state_of_its_time(world):
    return clone(world, "")


def a_buffer_that_is_transferred_takes_its_vms(world):
    return clone(world, "transfer_on_clone: true")


def a_buffer_that_is_cleared_loses_its_vms(world):
    return clone(world, "clear_before_clone: true")


BY_HAND = [nothing_is_overwritten, fields_are_set, messages_are_merged, objects_are_kept_by_their_ids,
           a_packet_of_several_chunks_counts_once, memory_ends, no_memory_at_all, a_program_of_nothing,
           without_limit_program_or_wish_there_is_no_vm, two_producers_with_one_program,
           two_programs_of_one_data_source, the_first_vm_that_takes_a_packet_has_it, it_is_told_once,
           a_clone_has_the_state_of_its_time, a_buffer_that_is_transferred_takes_its_vms,
           a_buffer_that_is_cleared_loses_its_vms]


# --- by chance ---

def write_case(producer, packets):
    at = 0
    while at < len(packets):
        count = 1
        while at + count < len(packets) and sum(map(len, packets[at:at + count + 1])) < 3000:
            count += 1
        producer.chunk(*packets[at:at + count])
        at += count


def states_of(world, seeds):
    """One session with a buffer, a data source and a writer for each seed."""
    cases = {"case%d" % seed: vm.some_case(seed) for seed in seeds}
    producer = world.producer({name: program for name, (program, _) in cases.items()})
    consumer = world.consumer(config(*cases, limit=64))
    for at, (name, (_, packets)) in enumerate(cases.items()):
        producer.write_as(at + 1, name)
        write_case(producer, packets)
        producer.overwrite()
    world.end(consumer)
    states = [t for t in world.read(consumer) if isinstance(t, dict)]
    assert len(states) == 1 and len(states[0]["instances"]) == len(cases), states
    for instance in states[0]["instances"]:
        instance["producers"] = None
    return dict(zip(seeds, states[0]["instances"]))


def digest(outcome):
    return hashlib.sha256(json.dumps(outcome).encode()).hexdigest()[:16]


def by_chance(path, first, count):
    out = {}
    for begin in range(first, first + count, BATCH):
        world = World(*path)
        try:
            out.update(states_of(world, range(begin, min(begin + BATCH, first + count))))
        finally:
            world.close()
    return out


def ask(scenario, path):
    """What came of it, with producers by their order."""
    world = World(*path)
    try:
        out = scenario(world)
    finally:
        world.close()
    ids = sorted({p for state in out if isinstance(state, dict)
                  for instance in state["instances"] for p in instance["producers"]})
    for state in out:
        if isinstance(state, dict):
            for instance in state["instances"]:
                instance["producers"] = [ids.index(p) for p in instance["producers"]]
    return out


def claim(is_good, text, *notes):
    print("%sok - %s" % ("" if is_good else "not ", text))
    for note in () if is_good else notes:
        print("# " + str(note).replace("\n", "\n# "))


def check_by_hand(name, path, recorded):
    outcomes = {}
    for scenario in BY_HAND:
        text = scenario.__name__.replace("_", " ")
        try:
            outcomes[text] = json.loads(json.dumps(ask(scenario, path)))
            claim(recorded is None or outcomes[text] == recorded.get(text), "%s: %s" % (name, text),
                  "recorded: %s" % (recorded or {}).get(text), "now:      %s" % outcomes[text])
        except Exception:
            claim(False, "%s: %s" % (name, text), traceback.format_exc())
    return outcomes


def record(file, path):
    recorded = {"by_hand": check_by_hand("recorded", path, None),
                "by_chance": {str(s): digest(o) for s, o in by_chance(path, 1, RECORDED).items()}}
    with open(file, "w") as f:
        json.dump(recorded, f, indent=0)
        f.write("\n")


def check(file, name, path):
    with open(file) as f:
        recorded = json.load(f)
    check_by_hand(name, path, recorded["by_hand"])
    wrong = {s: o for s, o in by_chance(path, 1, RECORDED).items()
             if digest(o) != recorded["by_chance"].get(str(s))}
    claim(not wrong, "%s: %d programs by chance make the states that were recorded" % (name, RECORDED),
          *["seed %d: %s" % item for item in list(wrong.items())[:3]])


def compare(first, count, path, other):
    mine, theirs = (by_chance(p, first, count) for p in (path, other))
    wrong = [s for s in mine if mine[s] != theirs[s]]
    claim(not wrong, "both make the same states of the programs %d to %d" % (first, first + count - 1),
          *["seed %d:\n%s\n%s" % (s, mine[s], theirs[s]) for s in wrong[:3]])


def write_trigger(producer):
    """A trigger "from the state" at 5000 ns: its name is in what is lost, its time in what is left."""
    producer.write_as(1, "trigger")
    producer.chunk(vm.number(8, 1000) + vm.patch("from the state"))
    producer.overwrite()
    producer.chunk(vm.number(8, 5000))


def write_trace(file, path):
    world = World(*path)
    producer = world.producer({"trigger": vm.TRIGGER})
    consumer = world.consumer(config("trigger"))
    write_trigger(producer)
    world.end(consumer)
    with open(file, "wb") as f:
        f.write(b"".join(field(1, packet) for packet in consumer.packets()))
    world.close()
    claim(True, "a trace with a VM is written")


def join(path):
    """A producer for somebody else's session, gone when it has written."""
    world = World(*path)
    write_trigger(world.producer({"trigger": vm.TRIGGER}))
    world.close()
    claim(True, "a producer with a program writes into an operator's session")


def main():
    mode, args = sys.argv[1], sys.argv[2:]
    if mode == "record":
        record(args[0], args[1:3])
    elif mode == "check":
        check(args[0], args[1], args[2:4])
    elif mode == "trace":
        write_trace(args[0], args[1:3])
    elif mode == "join":
        join(args[0:2])
    else:
        compare(int(args[0]), int(args[1]), args[2:4], args[4:6])


main()
