# SPDX-License-Identifier: Apache-2.0
"""What programs of producers (ProtoVMs) do to others. The attacker is a member of the consumers' group, whose own
session gives his own producer's programs memory."""
import time

import config_text
import vm_programs as vm
from config_text import varint
from smb_producer import FROM_PREVIOUS, PAGE, PAYLOAD, TO_NEXT, SmbProducer
from world import Consumer, Failed, Producer, World, field, get_slowness

ATTACKS = ["costly_programs", "fields_that_are_skipped", "states"]
QUIET = "builtin_data_sources { disable_service_events: true disable_clock_snapshotting: true } "
SMB_PAGES = 1024


class Programmer(SmbProducer):
    """Data sources with a program each; pages of one chunk."""

    def __init__(self, path, programs):
        super().__init__(path, "programs")
        self.call("InitializeConnection", field(1, PAGE) + field(2, SMB_PAGES * PAGE) + field(3, "programs") +
                  field(4, 1))
        self.listen()
        for name, program in programs.items():
            self.call("RegisterDataSource", field(1, field(1, name) + field(10, program)))

    def write_chunks(self, chunks):
        """Each a payload, its number of packets, and flags: as many in a commit as the memory has pages."""
        for begin in range(0, len(chunks), SMB_PAGES // 2):
            self.commit(b"".join(self.move(self.put(*chunk)) for chunk in chunks[begin:begin + SMB_PAGES // 2]))


def begin(consumer_path, producer_path, programs, buffers, memory_kb=1024):
    """A session of that attacker's, and his producer; `buffers`: of each data source its number, and sizes."""
    of_source, sizes_kb = buffers
    config = QUIET + "".join(
        "buffers { size_kb: %d experimental_mode: TRACE_BUFFER_V2 } " % size for size in sizes_kb) + "".join(
        'data_sources { config { name: "%s" target_buffer: %d protovm_config { memory_limit_kb: %d } } } ' % (
            name, of_source[name], memory_kb) for name in programs)
    producer = Programmer(producer_path, programs)
    consumer = Consumer(consumer_path)
    why = consumer.enable(config_text.encode(config))
    if why:
        raise AssertionError(why)
    for name in programs:
        if not producer.wait_for("=start " + name):
            raise AssertionError("%s does not start" % name)
    return consumer, producer


def run_costly_programs(ready, producer_path, consumer_path):
    """16 programs that look at each of 1900 fields 20 times, and then do not take the packet."""
    programs = {}
    for i in range(16):
        look = vm.select([vm.each(1)], vm.select([vm.step(2)], level=vm.SKIP), level=vm.SKIP)
        programs["s%d" % i] = vm.program(*[look] * 20, vm.select([vm.step(77 + i)], level=vm.BREAK))
    consumer, producer = begin(consumer_path, producer_path, programs, (dict.fromkeys(programs, 0), [64]))
    producer.begin_writer(1, producer.buffers[0])
    body = field(1, b"") * 1900
    producer.write_chunks([(varint(len(body)) + body, 1)] * 1000)
    ready()
    consumer.close()


def run_skipping_program(ready, producer_path, consumer_path):
    """A packet of 4 MB, all of it fields whose numbers no program can name, for 3000 instructions."""
    program = vm.program(*[vm.select([vm.step(5)], level=vm.SKIP)] * 3000)
    consumer, producer = begin(consumer_path, producer_path, {"s": program}, ({"s": 0}, [8192]))
    producer.begin_writer(1, producer.buffers[0])
    one = varint(1 << 28) + b"\1"
    body = one * ((4 << 20) // len(one))
    parts = [body[at:at + PAYLOAD - 2] for at in range(0, len(body), PAYLOAD - 2)]
    producer.write_chunks([(varint(len(part)) + part, 1, (FROM_PREVIOUS if i != 0 else 0) |
                            (TO_NEXT if i + 1 != len(parts) else 0)) for i, part in enumerate(parts)])
    filler = field(900, "y" * (PAYLOAD - 6))
    producer.write_chunks([(varint(len(filler)) + filler, 1)] * 2200)
    ready()
    consumer.close()


def measure(build, attack):
    with World(build) as world:
        victim = world.victim()
        said = world.attack("member", attack, world.producer, world.consumer).wait_ready(300)
        if said != "ready":
            raise Failed(said)
        time.sleep(0.2)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def costly_programs(build):
    """16 programs of a user that take as long as they may, over and over, hold nobody up"""
    return measure(build, run_costly_programs)


def fields_that_are_skipped(build):
    """nor do instructions that look through a large packet of fields that they cannot name"""
    return measure(build, run_skipping_program)


def ask_for_states(ready, producer_path, consumer_path):
    """In each of five sessions 128 buffers of 4 KiB, with 16 programs each that may have 32 MiB."""
    sources = {"s%d" % i: vm.program(vm.merge()) for i in range(128)}
    first = Programmer(producer_path, {name: vm.program(vm.merge()) for name in sources})
    others = [Programmer(producer_path, {name: vm.program(vm.merge(), version=i) for name in sources})
              for i in range(1, 16)]
    sessions = []
    of_source = {name: i for i, name in enumerate(sources)}
    for _ in range(5):
        sessions.append(Consumer(consumer_path))
        config = QUIET + "buffers { size_kb: 4 experimental_mode: TRACE_BUFFER_V2 } " * 128 + "".join(
            'data_sources { config { name: "%s" target_buffer: %d protovm_config { memory_limit_kb: 32768 } } } ' % (
                name, of_source[name]) for name in sources)
        why = sessions[-1].enable(config_text.encode(config))
        if why:
            raise AssertionError(why)
    neighbour = Producer(producer_path, "last", ["plain"])  # answered when all before it is done
    neighbour.settle()
    ready()
    for client in [first, neighbour, *others, *sessions]:
        client.close()


def states(build):
    """what programs of one user may keep is no more than his share of the memory for buffers"""
    with World(build) as world:
        said = world.attack("member", ask_for_states, world.producer, world.consumer).wait_ready(300)
        if said != "ready":
            raise Failed(said)
        refused = [line for line in world.log_lines() if "vm-not-set-up" in line and "share" in line]
        if not refused:
            raise Failed("320 GiB are not refused")
        if Consumer(world.consumer).enable(field(1, field(1, 1024))):
            raise Failed("another user has no memory for buffers left")
        return "said %d times, another user has a session" % len(refused)
