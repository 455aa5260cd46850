# SPDX-License-Identifier: Apache-2.0
"""One user takes as much as he can of what there is for all; another user goes on working."""
import os
import resource
import select
import socket
import statistics
import struct
import threading
import time

from attacks.descriptors import fuse_file, send_fds
from world import (GUARDRAILS_HASTE, SEATS, Child, Client, Consumer, Failed, Producer, World, dict_of_lists, field, fields,
                   get_slowness)

ATTACKS = ["connections", "connecting", "passed_descriptors", "subordinate_users", "many_connections", "data_sources", "descriptors", "instances",
           "half_frames", "writers", "sequences", "sequence_ids", "buffers", "clones", "clones_of_many_buffers", "queries", "guardrails"]
ROUNDS = 30
GUARDRAILS_MIB = 64  # besides what is allowed
BUSY_MS = 50  # what a machine with other work adds to anything
INIT, REGISTER, COMMANDS, WRITER = 1, 2, 5, 6  # methods, by their places in docs/abi/wire.md


# ---- the neighbour, who only wants to work ----

def work_once(producer_path, consumer_path, source):
    """A program connects, a session records of it, somebody asks who is there: seconds of each."""
    times, begin = [], time.monotonic()
    producer = Producer(producer_path, "neighbour", [source])
    if producer.is_refused:
        raise AssertionError("the neighbour's producer is refused")
    times.append(time.monotonic() - begin)
    begin = time.monotonic()
    consumer = Consumer(consumer_path)
    why = consumer.enable(field(1, field(1, 64)) + field(2, field(1, field(1, source))))
    if why:
        raise AssertionError("the neighbour's session is refused: " + why)
    if not producer.wait_for("start ", 20):
        raise AssertionError("the neighbour's data source is not started")
    consumer.call("DisableTracing")
    consumer.call("FreeBuffers")
    times.append(time.monotonic() - begin)
    begin = time.monotonic()
    if consumer.call("QueryServiceState", field(1, 1)) is None:
        raise AssertionError("the neighbour gets no answer")
    times.append(time.monotonic() - begin)
    consumer.close()
    producer.close()
    return times


def work(ready, world, source, rounds):
    rows = [work_once(world.producer, world.consumer, source) for _ in range(rounds)]
    ready("ms " + " ".join("%.3f" % (1000 * statistics.median(column)) for column in zip(*rows)))


def measure(world, source="mine", rounds=ROUNDS):
    cpu_ns = world.loop_ns()
    child = Child("neighbour", work, world, source, rounds)
    try:
        said = child.wait_ready()
    finally:
        child.end()
    if not said.startswith("ms "):
        raise Failed("the neighbour cannot work: " + said)
    return [float(value) for value in said.split()[1:]] + [
        (world.loop_ns() - cpu_ns) / 1e6 / rounds]


def compare(world, quiet, source="mine"):
    """At most twice as long, and what a busy machine adds: the best of some turns counts. The figures are printed."""
    attacked = measure(world, source)
    for _ in range(4):
        if all(now <= 2 * before + BUSY_MS for now, before in zip(attacked, quiet)):
            break
        attacked = [min(pair) for pair in zip(attacked, measure(world, source))]
    note = "connect, session, query, CPU of the service: quiet %s ms, attacked %s ms" % (
        " ".join("%.2f" % v for v in quiet), " ".join("%.2f" % v for v in attacked))
    if any(now > 2 * before + BUSY_MS for now, before in zip(attacked, quiet)):
        raise Failed(note)
    if not world.is_alive():
        raise Failed("the service is gone")
    return note


def attack(world, function, *args, seat="stranger"):
    said = world.attack(seat, function, *args).wait_ready(300)
    if said.startswith("failed") or said in ("late", "gone"):
        raise Failed("the attacker: " + said)
    return said


# ---- the attacker's tools ----

def frame(number, body):
    data = field(2, number) + body
    return struct.pack("<I", len(data)) + data


def invoke(number, method, args):
    return frame(number, field(5, field(1, 1) + field(2, method) + field(3, args)))


def bind(service):
    return frame(1, field(3, field(1, service)))


def hello(name=b"taker"):
    return (bind("ProducerPort") + invoke(2, INIT, field(1, 4096) + field(2, 4096) + field(3, name))
            + invoke(3, COMMANDS, b""))


def descriptor(source, size):
    """Ends in a field that nobody knows, up to that size."""
    out = field(1, source)
    return out + field(900, bytes(max(0, size - len(out) - 5))) if size else out


def raise_fds():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 2, 0))
    sock.connect(path)  # waits for its turn, so long
    sock.settimeout(2)
    return sock


def wait_for(sock, events, limit_s):
    poll = select.poll()  # select(2) knows 1024 descriptors
    poll.register(sock, events)
    return sum(event for _, event in poll.poll(1000 * limit_s))


def send_all(sock, data):
    """Reads meanwhile, so that the service's answers fit. False: the service ended it."""
    sock.setblocking(False)
    end = time.monotonic() + 20
    while data:
        try:
            events = wait_for(sock, select.POLLIN | select.POLLOUT, 1)
            if events & select.POLLIN and not sock.recv(1 << 16):
                return False
            if events & select.POLLOUT:
                data = data[sock.send(data):]
        except BlockingIOError:
            pass
        except OSError:
            return False
        if time.monotonic() > end:
            return False
    return True


def settle(sock, limit_s=10):
    """Until the service has nothing more to say."""
    sock.setblocking(False)
    while wait_for(sock, select.POLLIN, 0.01) and limit_s > 0:
        limit_s -= 0.01
        try:
            if not sock.recv(1 << 16):
                return False
        except OSError:
            return False
    return True


def count_open(socks):
    """Of those, which the service has not ended."""
    count = 0
    for sock in socks:
        sock.setblocking(False)
        try:
            while True:
                if not sock.recv(1 << 16):
                    break
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


# ---- attacks ----

def take_connections(ready, paths, count):
    raise_fds()
    socks, failures = [], 0
    while len(socks) < count and failures < 50:
        try:
            socks.append(connect(paths[len(socks) % len(paths)]))
            socks[-1].send(bind("ProducerPort" if len(socks) % len(paths) else "ConsumerPort"))
        except OSError:
            failures += 1
    time.sleep(1)
    ready("%d" % count_open(socks))


def limit_fds(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def connections(build):
    """who opens connections until the service has no descriptors left keeps nobody out"""
    with World(build, prepare=limit_fds(2048)) as world:
        quiet = measure(world)
        said = attack(world, take_connections, [world.producer, world.consumer], 4000)
        return "%s of 4000 connections, 2048 descriptors; %s" % (said, compare(world, quiet))


def connect_and_close(path):
    """Never above his share."""
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:
            pass
        sock.close()


def connect_without_end(ready, path):
    threading.Thread(target=connect_and_close, args=(path,), daemon=True).start()
    ready()


def count_refused(world):
    """What the service says of itself (docs/metrics.md)."""
    answer = Consumer(world.consumer).call("QueryServiceState", field(1, 1) + field(50001, 1))
    state = dict(fields(b"".join(value for number, value in fields(answer[1]) if number == 1)))
    return dict(fields(state[50001])).get(31, 0)


def arrive(ready, path, service, seconds):
    """A newcomer's connect and bind, again and again: their median."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or not times:
        begin = time.monotonic()
        client = Client(path, service)
        times.append(time.monotonic() - begin)
        client.sock.close()
        time.sleep(0.02)
    ready("%.4f" % statistics.median(times))


def connecting(build):
    """who connects and closes without end, three times at once, keeps no newcomer out, at either socket"""
    notes = []
    for seat, socket_name, service in (("stranger", "producer", "ProducerPort"),
                                       ("member", "consumer", "ConsumerPort")):
        with World(build) as world:
            path = getattr(world, socket_name)
            floods = [world.attack(seat, connect_without_end, path) for _ in range(3)]
            if any(child.wait_ready() != "ready" for child in floods):
                raise Failed("the flood does not begin")
            median = float(attack(world, arrive, path, service, 5, seat="neighbour"))
            refused = count_refused(world)
            note = "%s: a newcomer's median %.4f s, %d refused" % (socket_name, median, refused)
            if median > 0.05 * get_slowness() or refused < 1000 or not world.is_alive():
                raise Failed(note)
            notes.append(note)
    return "; ".join(notes)


def take_numbers(ready, path, count, messages):
    """Each connection keeps a descriptor; then come messages with as many as there can be, which are closed for
    ever: their file system does not answer."""
    raise_fds()
    os.chdir(os.path.dirname(path))  # which will be hidden
    path = os.path.basename(path)
    kept = [connect(path) for _ in range(count)]
    try:
        fd = fuse_file()
    except (PermissionError, FileNotFoundError) as why:
        ready("SKIP %s" % why)
        return
    ended = 0
    for sock in kept:
        try:
            send_fds(sock, [fd])
        except OSError:
            pass
    for _ in range(messages):
        try:
            sock = connect(path)
            send_fds(sock, [fd] * 253)
            ended += not sock.recv(1)
        except OSError:
            ended += 1
    ready("%d" % ended)


def passed_descriptors(build):
    """who passes descriptors that are never closed brings no service to its limit of open files"""
    with World(build, prepare=limit_fds(2048)) as world:
        quiet = measure(world)
        before = world.fds()
        victim = world.victim()
        taken = []
        for seat in ("stranger", "member"):
            said = attack(world, take_numbers, world.producer, 200, 2000, seat=seat)
            if said.startswith("SKIP"):
                return said
            taken.append(world.fds() - before)
        waited = victim.worst_s()
        victim.is_ending = True
        note = "one has %d of 2048, both %d; the victim waited %.3f s at most" % (*taken, waited)
        if taken[0] > 2048 / 2 or taken[1] > 2048 - 256 or waited > get_slowness() or victim.failed:
            raise Failed(note)
        return note + "; " + compare(world, quiet)


def as_user(uid, function, *args):
    """Its answer, in a child that is this user; the child stays."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

        def say(text):
            os.write(write, text.encode())
            os.close(write)
            time.sleep(1000)
        function(say, *args)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        return answer.read()


def take_as_many_users(ready, first, count, paths, each):
    """What newuidmap(1) lets somebody with a range do: he is each of its ids in turn."""
    taken = [int(as_user(first + i, take_connections, paths, each)) for i in range(count)]
    ready("%d" % sum(taken))


def as_many_users(ready, count, function, *args):
    """Each connects as often as one user may at once."""
    ready("%d" % sum(int(as_user(62000 + i, function, *args)) for i in range(count)))


def subordinate_users(build):
    """who is 12 users by his subordinate ids has one user's share, and keeps nobody out"""
    if not os.path.exists("/etc/subuid"):
        return "SKIP no /etc/subuid here"
    with World(build, prepare=limit_fds(2048), subuid="%d:700000:65536\n" % SEATS["stranger"][0]) as world:
        quiet = measure(world)
        said = attack(world, take_as_many_users, 700000, 12, [world.producer, world.consumer], 400, seat=None)
        own = attack(world, take_connections, [world.producer, world.consumer], 400)
        note = "%s connections of 12 ids, %s of their owner" % (said, own)
        if int(said) + int(own) > 2048 / 2 / 2:
            raise Failed(note)
        return note + "; " + compare(world, quiet)


def take_producers(ready, path, count):
    raise_fds()
    socks = []
    for _ in range(count):
        try:
            socks.append(connect(path))
            socks[-1].send(hello(b"n" * 8192))
        except OSError:
            break
    time.sleep(1)
    ready("%d" % count_open(socks))


def many_connections(build):
    """5000 producers of five users, with names of 8 KiB, slow nobody down"""
    with World(build) as world:
        quiet = measure(world)
        before = world.memory_kb("VmRSS")
        said = attack(world, as_many_users, 5, take_producers, world.producer, 1000, seat=None)
        return "%s producers, %d MiB; %s" % (
            said, (world.memory_kb("VmRSS") - before) >> 10, compare(world, quiet))


def take_sources(ready, path, producers, sources, size, name="s"):
    raise_fds()
    kept = []
    one = descriptor(name, size)
    for _ in range(producers):
        sock = connect(path)
        kept.append(sock)
        if not send_all(sock, hello()):
            continue
        for first in range(0, sources, 64):
            many = b"".join(invoke(10 + n, REGISTER, field(1, one + field(7, n + 1)))
                            for n in range(first, min(first + 64, sources)))
            if not send_all(sock, many):
                break
    for sock in kept:
        settle(sock, 1)
    ready("%d" % count_open(kept))


def data_sources(build):
    """who registers all the data sources there may be leaves others theirs"""
    with World(build) as world:
        quiet = measure(world)
        attack(world, take_sources, world.producer, 260, 256, 0)
        return compare(world, quiet)


def answer_of(world):
    """The whole state: its bytes, the names of its data sources, and the time."""
    begin = time.monotonic()
    consumer = Consumer(world.consumer)
    answer = consumer.call("QueryServiceState")
    if answer is None or not answer[0]:
        raise Failed("no answer to QueryServiceState")
    state = dict_of_lists(b"".join(value for number, value in fields(answer[1]) if number == 1))
    names = {dict(fields(dict(fields(source)).get(1, b""))).get(1) for source in state.get(2, [])}
    return len(answer[1]), names, time.monotonic() - begin


def descriptors(build):
    """who registers large descriptors does not spoil the answer about all"""
    with World(build) as world:
        quiet = measure(world)
        attack(world, take_sources, world.producer, 40, 60, 65000)
        mine = Producer(world.producer, "root's", ["rootsource"])
        size, names, seconds = answer_of(world)
        if size > 16 << 20:
            raise Failed("the answer has %d MiB" % (size >> 20))
        if b"rootsource" not in names:
            raise Failed("the answer leaves out root's data source")
        mine.close()
        return "the answer has %d KiB, %.3f s; %s" % (size >> 10, seconds, compare(world, quiet))


def instances(build):
    """who offers what a session wants 60,000 times leaves others room, and does not fill the log"""
    with World(build) as world:
        quiet = measure(world)
        consumer = Consumer(world.consumer)
        why = consumer.enable(field(1, field(1, 64)) + field(2, field(1, field(1, "wanted"))))
        if why:
            raise Failed(why)
        attack(world, take_sources, world.producer, 235, 256, 0, "wanted")
        said = attack(world, join_session, world.producer, seat="neighbour")
        if said != "joined":
            raise Failed("the neighbour's data source is not in root's session")
        lines = len(world.log_lines())
        if lines > 500:
            raise Failed("%d lines in the log" % lines)
        return "%d lines in the log; %s" % (lines, compare(world, quiet))


def join_session(ready, path):
    producer = Producer(path, "neighbour", ["wanted"])
    ready("joined" if producer.wait_for("start ", 5) else "left out")


def take_halves(ready, path, count):
    raise_fds()
    half = hello() + struct.pack("<I", 131000) + bytes(130000)
    socks = []
    for _ in range(count):
        socks.append(connect(path))
        send_all(socks[-1], half)
    ready("%d" % count_open(socks))


def half_frames(build):
    """ten users who send half a message on each of 1000 connections use a bounded part of the memory"""
    with World(build) as world:
        quiet = measure(world)
        before = world.memory_kb("VmRSS")
        said = attack(world, as_many_users, 10, take_halves, world.producer, 1000, seat=None)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown > 512 + 64:
            raise Failed("%s connections; the service grew by %d MiB" % (said, grown))
        return "%s connections; the service grew by %d MiB; %s" % (
            said, grown, compare(world, quiet))


def take_writers(ready, path, count):
    raise_fds()
    socks = []
    for _ in range(count):
        socks.append(connect(path))
        send_all(socks[-1], hello() + invoke(10, WRITER, field(1, 32767) + field(2, 1)))
    for sock in socks:
        settle(sock, 0.2)
    ready("%d" % count_open(socks))


def writers(build):
    """writers with the largest numbers on 8,000 connections of eight users, likewise"""
    with World(build) as world:
        quiet = measure(world)
        before = world.memory_kb("VmRSS")
        attack(world, as_many_users, 8, take_writers, world.producer, 1000, seat=None)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown > 512 + 64:
            raise Failed("the service grew by %d MiB" % grown)
        return "the service grew by %d MiB; %s" % (grown, compare(world, quiet))


class Writers(Producer):
    """What one chunk of each writer costs is the service's memory, not this producer's."""
    target = 1

    def on_setup(self, setup):
        super().on_setup(setup)
        self.target = dict(fields(setup[2])).get(2, 0)

    def wait_for_start(self):
        while not self.instances and self.has_input(5):
            self.dispatch()

    def make_calls(self, count):
        moves = []
        for writer in range(1, count + 1):
            chunk = struct.pack("<IHH", 0, writer, 1) + b"\x02\x08\x01"
            moves.append(field(1, field(4, chunk) + field(3, self.target)))
        return [b"".join(moves[at:at + 4000]) for at in range(0, len(moves), 4000)]

    def fill(self, count):
        self.wait_for_start()
        for call in self.make_calls(count):
            self.call("CommitData", call)


def write_as_many(ready, path, count):
    raise_fds()
    kept = []
    for number in range(count):
        kept.append(Writers(path, "writers.%d" % number, ["victim"]))
        kept[-1].fill(32767)
    ready("%d" % len(kept))


def count_chunks(consumer):
    stats = dict(fields(consumer.call("GetTraceStats")[1]))[1]
    return dict(fields(dict(fields(stats))[1]))[2]


def sequences(build):
    """a chunk of each of 400,000 writers costs a bounded part of the service's memory, and others' writers have theirs"""
    with World(build) as world:
        quiet = measure(world)
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, 65536)) + field(2, field(1, field(1, "victim"))))
        if why:
            raise Failed(why)
        before = world.memory_kb("VmRSS")
        attack(world, write_as_many, world.producer, 12)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown > 200:
            raise Failed("the service grew by %d MiB" % grown)
        stored = count_chunks(root)
        others = Writers(world.producer, "others", ["victim"])
        others.fill(10)
        if count_chunks(root) != stored + 10:
            raise Failed("of another user's ten writers %d have a chunk there" % (count_chunks(root) - stored))
        return "the service grew by %d MiB; %s" % (grown, compare(world, quiet))


def come_and_go(ready, path, count):
    """Each producer's writers have a packet each; then it is gone. What it sends is made once."""
    calls = None
    for number in range(count):
        producer = Writers(path, "writers.%d" % number, ["victim"])
        producer.wait_for_start()
        calls = calls or producer.make_calls(32767)
        for call in calls:
            producer.call("CommitData", call)
        producer.close()
    ready("%d" % (count * 32767))


def write_as(ready, path, count):
    producer = Writers(path, "few", ["victim"])
    producer.fill(count)
    ready("%d" % count)


def read_identities(consumer):
    """Of producers' packets: (user, sequence)."""
    packets = [dict(fields(packet)) for packet in consumer.packets()]
    return {(packet[3], packet[10]) for packet in packets if packet.get(10, 1) != 1 and 3 in packet}


def sequence_ids(build):
    """after a million writers that came and went, others' writers have sequence ids of their own"""
    with World(build) as world:
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, 65536)) + field(2, field(1, field(1, "victim"))))
        if why:
            raise Failed(why)
        child = world.attack("stranger", come_and_go, world.producer, 33)
        while not select.select([child.ready], [], [], 0.05)[0]:
            root.call("ReadBuffers")
        child.wait_ready()
        root.call("ReadBuffers")
        grown = world.memory_kb("VmRSS")
        for seat in ("stranger", "neighbour", None):
            world.attack(seat, write_as, world.producer, 5).wait_ready()
        time.sleep(0.1)
        seen = read_identities(root)
        ids = {sequence for _, sequence in seen}
        if len(seen) != 15 or len(ids) != 15:
            raise Failed("%d writers of three users have %d sequence ids" % (len(seen), len(ids)))
        return "ids up to %d, the service has %d MiB" % (max(ids), grown >> 10)


def ask_for_buffers(ready, path):
    why = Consumer(path).enable(b"".join(field(1, field(1, 4194300)) for _ in range(128)))
    ready("refused: " + why if why else "taken")


def buffers(build):
    """who wants more memory for buffers than the machine has is refused, with the reason"""
    with World(build) as world:
        quiet = measure(world)
        said = attack(world, ask_for_buffers, world.consumer)
        if not said.startswith("refused"):
            raise Failed("512 GiB are " + said)
        return said + "; " + compare(world, quiet)


def clone_again(ready, path, count, request, kept):
    """Until one is refused; says how many were made, and keeps them."""
    made = 0
    for _ in range(count):
        kept.append(Consumer(path))
        answer = kept[-1].call("CloneSession", request)
        if answer is None or not dict(fields(answer[1])).get(1):
            break
        made += 1
    ready("%d" % made)


def take_clones(ready, producer_path, path, count):
    raise_fds()
    source = Consumer(path)
    why = source.enable(field(1, field(1, 64)) + field(1, field(1, 4194300))
                        + field(2, field(1, field(1, "none"))))
    if why:
        raise AssertionError(why)
    session = source.state()[-1][1][0]
    clone_again(ready, path, count, field(1, session), [])


def clones(build):
    """clones count as sessions of their user do, in memory"""
    with World(build, env={"PFL_TEST": "1"}) as world:
        quiet = measure(world)
        said = attack(world, take_clones, world.producer, world.consumer, 2000)
        return "%s clones; %s" % (said, compare(world, quiet))


def take_buffer_ids(ready, path, count):
    raise_fds()
    kept = [Consumer(path), Consumer(path)]
    for consumer, buffers, name in zip(kept, (128, 126), ("many", "rest")):
        why = consumer.enable(b"".join(field(1, field(1, 4)) for _ in range(buffers))
                              + field(2, field(1, field(1, "none"))) + field(22, name))
        if why:
            raise AssertionError(why)
    clone_again(ready, path, count, field(4, "many"), kept)


def clones_of_many_buffers(build):
    """clones of 128 buffers each leave others buffers of their own"""
    with World(build, env={"PFL_TEST": "1"}) as world:
        quiet = measure(world)
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, 64)) + field(2, field(1, field(1, "none"))))
        if why:
            raise Failed(why)
        said = attack(world, take_buffer_ids, world.consumer, 510, seat="member")
        return "%s clones; %s" % (said, compare(world, quiet))


def ask_and_not_read(ready, path, count):
    raise_fds()
    kept = []
    for _ in range(count):
        client = Client(path, "ConsumerPort")
        kept.append(client.sock)
        client.sock.setblocking(False)
        ask = frame(1, field(5, field(1, 1) + field(2, 12) + field(3, b""))) * 1000
        try:
            client.sock.send(ask)
        except OSError:
            pass
    time.sleep(1)
    ready("%d" % count_open(kept))


def queries(build):
    """who asks 1000 times on each of 500 connections and reads no answer delays nobody"""
    with World(build) as world:
        quiet = measure(world)
        attack(world, take_sources, world.producer, 40, 60, 65000)
        said = attack(world, ask_and_not_read, world.consumer, 500)
        return "%s connections; %s" % (said, compare(world, quiet))


def guardrails(build):
    """with --guardrails, what one user registers does not end the service"""
    with World(build, ["--guardrails"], haste=GUARDRAILS_HASTE) as world:
        before = world.memory_kb("VmRSS")
        attack(world, take_sources, world.producer, 40, 60, 65000)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown < 2 * GUARDRAILS_MIB:
            raise Failed("this takes %d MiB, which no guardrail forbids: the attack tries nothing" % grown)
        world.outlive_guardrails()
        return "the service grew by %d MiB, and lives" % grown
