# SPDX-License-Identifier: Apache-2.0
"""What a producer does to others by the writers that it has, and by what these write."""
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import tempfile
import time

from world import Client, Consumer, Failed, Producer, World, field, fields, get_slowness
from config_text import varint

ATTACKS = ["chosen_numbers", "worthless_packets", "memory_full_of_chunks", "long_packet", "unreadable_packet",
           "clones"]
PAGE, SMB = 4096, 32 << 20
DIV1, DIV14, CHUNKS, CHUNK = 1, 5, 14, ((4096 - 8) // 14) & ~3
COMPLETE = 3
SESSION = field(2, field(1, field(1, "track_event")))


class Writers(Producer):
    """A producer of the largest memory, in pages of 14 chunks."""

    def __init__(self, path):
        Client.__init__(self, path, "ProducerPort")
        self.received, self.owed, self.holds, self.instances, self.is_refused = [], [], set(), {}, False
        self.memory = None
        self.call("InitializeConnection", field(1, PAGE) + field(2, SMB) + field(3, "writers") + field(4, 1))
        self.invoke("GetAsyncCommand", b"", self.on_command)
        self.call("RegisterDataSource", field(1, field(1, "track_event")))
        if not self.wait_for("start "):
            raise TimeoutError("not started")

    def on_setup(self, setup):
        self.buffer = dict(fields(setup[2])).get(2, 0)
        if self.memory is None:
            self.memory = mmap.mmap(self.fds[0], os.fstat(self.fds[0]).st_size)
        super().on_setup(setup)

    def put(self, chunks):
        """Of each the writer, its number, and its payload, with the number of packets in that."""
        for page in range(0, (len(chunks) + CHUNKS - 1) // CHUNKS):
            part = chunks[page * CHUNKS:][:CHUNKS]
            data = bytearray(PAGE)
            for i, (writer, number, payload, count) in enumerate(part):
                at = 8 + i * CHUNK
                struct.pack_into("<IHH", data, at, number, writer, count)
                data[at + 8:at + 8 + len(payload)] = payload
            states = sum(COMPLETE << 2 * i for i in range(len(part)))
            struct.pack_into("<I", data, 0, DIV14 << 28 | states)
            self.memory[page * PAGE:(page + 1) * PAGE] = bytes(data)

    def commit(self, number):
        """The first chunks."""
        moves = [field(1, field(1, i // CHUNKS) + field(2, i % CHUNKS) + field(3, self.buffer))
                 for i in range(number)]
        for begin in range(0, number, 8000):
            self.call("CommitData", b"".join(moves[begin:begin + 8000]))


def packet(text="y" * 4):
    body = field(900, text)
    return varint(len(body)) + body


def meet_in_ids(producer):
    """Numbers that a multiplication by a known number puts side by side in a table of 2^16 places."""
    del producer
    inverse = pow(2654435761, -1, 1 << 16)
    return [w for w in (inverse * i & 0xFFFF for i in range(2 * 1000 + 100)) if 0 < w < 32768][:1000]


def meet_in_buffer(producer):
    """Likewise of producer and writer together, in one of 2^17."""
    return sorted(range(1, 32768), key=lambda w: (
        (producer << 16 | w) * 0x9E3779B97F4A7C15 >> 32) % (1 << 17))[:1000]


def choose_numbers(ready, path, choose, producers):
    for producer in range(producers):
        writers = Writers(path)
        writers.put([(w, 0, packet(), 1) for w in choose(producer + 1)])
        writers.commit(1000)
        choose.kept = getattr(choose, "kept", []) + [writers]
    ready()


def fill(ready, path, rounds):
    """Of as many producers each chunk is full of packets that are none."""
    payload = b"\1\0" * ((CHUNK - 8) // 2)
    chunks = SMB // PAGE * CHUNKS
    kept = [Writers(path)]
    kept[0].put([(1, number, payload, len(payload) // 2) for number in range(chunks)])
    image = bytes(kept[0].memory)
    for _ in range(rounds):
        kept.append(Writers(path))
        kept[-1].memory[:] = image
        kept[-1].commit(chunks)
    ready()


def record(build, buffer_kb, more, attack, *args):
    """Root's session while it is attacked, and then read: how long another waited meanwhile."""
    with World(build) as world:
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, buffer_kb)) + SESSION + more)
        if why:
            raise Failed(why)
        victim = world.victim()
        said = world.attack("stranger", attack, world.producer, *args).wait_ready(300)
        if said != "ready":
            raise Failed(said)
        for _ in range(3):  # what was scraped before costs more
            root.call("Flush", field(1, 100))
        answer = root.call("ReadBuffers")
        time.sleep(0.5)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or answer is None or not answer[0] or not world.is_alive() or worst > get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def chosen_numbers(build):
    """a hundred producers that choose the numbers of their writers to meet in a table hold nobody up"""
    return "; ".join(record(build, 65536, b"", choose_numbers, choose, 100)
                     for choose in (meet_in_ids, meet_in_buffer))


def worthless_packets(build):
    """nor do some that fill a buffer of 512 MiB with packets that are none, compressed or not"""
    return "; ".join(record(build, 512 << 10, more, fill, 16) for more in (b"", field(24, 1)))


def leave_uncommitted(ready, path, producers):
    """Each has 114,688 chunks of registered writers, and commits none."""
    payload = 2 * packet()
    image, kept = None, []
    for _ in range(producers):
        writers = Writers(path)
        kept.append(writers)
        for writer in range(1, 17):
            writers.call("RegisterTraceWriter", field(1, writer) + field(2, writers.buffer))
        if image is None:
            writers.put([(1 + i % 16, i // 16, payload, 2) for i in range(SMB // PAGE * CHUNKS)])
            image = bytes(writers.memory)
        else:
            writers.memory[:] = image
    ready()


def memory_full_of_chunks(build):
    """nor do 16 producers whose memory of 32 MiB is full of chunks, for each flush of anybody's to copy"""
    return record(build, 65536, b"", leave_uncommitted, 16)


CONTINUES_PREV, CONTINUES_NEXT, COUNT_BITS = 1, 2, 10


def long_size(number):
    """As a fragment's size, in four bytes."""
    return bytes((number >> shift & 0x7F) | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21))


def write_long_packet(ready, path, chunks):
    """One packet, of fields of two bytes: a chunk in each page, as often as the memory takes."""
    producer = Writers(path)
    room = PAGE - 8 - 8 - 4
    data = long_size(room) + b"\x20\1" * (room // 2)
    for begin in range(0, chunks, SMB // PAGE):
        pages = min(SMB // PAGE, chunks - begin)
        image = bytearray(pages * PAGE)
        for i in range(pages):
            flags = (CONTINUES_PREV if begin + i != 0 else 0) | (
                CONTINUES_NEXT if begin + i != chunks - 1 else 0)
            struct.pack_into("<IIIHH", image, i * PAGE, DIV1 << 28 | COMPLETE, 0, begin + i, 1,
                             1 | flags << COUNT_BITS)
            image[i * PAGE + 16:i * PAGE + 16 + len(data)] = data
        producer.memory[:len(image)] = bytes(image)
        moves = [field(1, field(1, i) + field(2, 0) + field(3, producer.buffer)) for i in range(pages)]
        producer.call("CommitData", b"".join(moves))
    ready()


def long_packet(build):
    """nor does one packet of 223 MiB when it is read, compressed or not"""
    return "; ".join(record(build, 512 << 10, more, write_long_packet, 57344)
                     for more in (b"", field(24, 1)))


RECORDED = """buffers { size_kb: 131072 fill_policy: RING_BUFFER } buffers { size_kb: 4096 fill_policy: RING_BUFFER }
data_sources { config { name: "track_event" target_buffer: 0 } }
data_sources { config { name: "com.example.load" target_buffer: 1 } }
duration_ms: 60000
"""


def unreadable_packet(build):
    """nor does one of 65 MiB, which readers do not take, keep another buffer's packets out of root's recording"""
    with World(build) as world, tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, PERFETTO_PRODUCER_SOCK_NAME=str(world.producer), PERFLEET_CONFIG="")
        config, trace = os.path.join(folder, "config"), os.path.join(folder, "trace")
        with open(config, "w", encoding="utf-8") as file:
            file.write(RECORDED)
        with subprocess.Popen([build / "bin/perfleet-example", "--rate", "2000"], env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as example:
            recorder = subprocess.Popen(
                [build / "bin/perfleet", "record", "-c", config, "-o", trace, "--json", "--host",
                 "x=unix:" + str(world.consumer)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = world.attack("stranger", write_long_packet, world.producer, 16800).wait_ready(100)
            recorder.send_signal(signal.SIGINT)
            out, err = recorder.communicate(timeout=100)
            example.kill()
        host = json.loads(out)["hosts"][0] if said == "ready" else {}
        if host.get("losses", {}).get("refused_packets") != 1 or host.get("failed_while") or host["packets"] < 1000:
            raise Failed("%s %s %s" % (said, out, err))
        return "root has %d packets" % host["packets"]


class OfManyWriters(Producer):
    """A writer for each number there is, each with a chunk, which comes without shared memory."""
    buffer = 0

    def on_setup(self, setup):
        super().on_setup(setup)
        self.buffer = dict(fields(setup[2])).get(2, 0)

    def write(self):
        self.wait_for("start ")
        moves = [field(1, field(4, struct.pack("<IHH", 0, writer, 1) + b"\2\x08\1") + field(3, self.buffer))
                 for writer in range(1, 32768)]
        for begin in range(0, len(moves), 4000):
            self.call("CommitData", b"".join(moves[begin:begin + 4000]))


def clone(consumer):
    consumer.done = []
    consumer.invoke("CloneSession", field(4, "s"), lambda ok, more, body: consumer.done.append(body))
    return consumer


def clone_and_leave(ready, consumers, producers, connections, go, seconds):
    """A session that knows 160,000 writers; then clones of it, each of a new connection."""
    source = Consumer(consumers)
    why = source.enable(field(1, field(1, 65536)) + field(2, field(1, field(1, "mine"))) + field(22, "s"))
    if why:
        raise AssertionError(why)
    for i in range(5):
        producer = OfManyWriters(producers, "p%d" % i, ["mine"])
        producer.write()
        producer.sock.close()
    cloners = [Consumer(consumers) for _ in range(connections)]
    os.write(go[1], b"x")
    end, number = time.monotonic() + seconds, 0
    cloners = [clone(consumer) for consumer in cloners]
    while time.monotonic() < end:
        for i, cloner in enumerate(cloners):
            if cloner.has_input(0):
                cloner.dispatch()
            if cloner.done:
                if dict(fields(cloner.done[0])).get(1) != 1:
                    raise AssertionError("no clone: %r" % cloner.done[0])
                cloner.sock.close()
                number, cloners[i] = number + 1, clone(Consumer(consumers))
        time.sleep(0.001)
    ready("%d" % number)


def clones(build):
    """clones of a session that knows 160,000 writers, of who leaves after each, take a part of the loop's time"""
    seconds, go = 8, os.pipe()
    with World(build) as world:
        child = world.attack("member", clone_and_leave, world.consumer, world.producer, 8, go, seconds)
        if select.select([go[0]], [], [], 100)[0] == []:
            raise Failed("the writers do not come")
        begin, loop_ns = time.monotonic(), world.loop_ns()
        said = child.wait_ready(60)
        part = (world.loop_ns() - loop_ns) / 1e9 / (time.monotonic() - begin)
        if not said.isdigit():
            raise Failed(said)
        if part > 0.35 or not world.is_alive():
            raise Failed("%s clones in %d s took %.2f of the loop" % (said, seconds, part))
        return "%s clones in %d s took %.2f of the loop" % (said, seconds, part)
