# SPDX-License-Identifier: Apache-2.0
"""What sessions and triggers of one user do to others."""
import contextlib
import ctypes
import os
import pathlib
import resource
import selectors
import socket
import struct
import subprocess
import tempfile
import time

from attacks.totals import take_sources
from world import GROUP, LIMIT_S, SEATS, SERVICE_USER, Consumer, Failed, Producer, World, field, fields, get_slowness
from config_text import varint
from smb_producer import SmbProducer, fragments

ATTACKS = ["raised_triggers", "exclusive_session", "lockdown", "privileged_group", "output_path", "output_path_segments",
           "output_path_index", "output_path_swapped",
           "wide_patterns", "costly_patterns", "costly_patterns_in_many_sessions", "events_of_others", "costly_semaphores", "thousands_of_triggers", "thousands_of_producers", "one_name", "many_instances", "costly_filters",
           "stopped_filter", "unread_pipe", "costly_requests", "operators_requests", "answers_read", "producers_requests", "large_clones", "filters_of_clones", "taken_names",
           "freed_buffers", "output_path_fifo",
           "output_path_hangs", "output_path_hangs_later"]


ROTATION = field(50001, field(2, 60000) + field(3, 2))


def trigger_config(names):
    triggers = b"".join(field(2, field(1, name) + field(4, 1000)) for name in names)
    return (field(1, field(1, 64)) + field(2, field(1, field(1, "none")))
            + field(17, field(1, 4) + triggers + field(3, 86400000)))


def raise_triggers(ready, path, requests):
    producers = [Producer(path, "hostile", []) for _ in range(12)]
    body = b"".join(field(1, "t") for _ in range(1024))
    for _ in range(requests):
        for producer in producers:
            producer.invoke("ActivateTriggers", body, lambda *_: None)
    ready()


def raised_triggers(build):
    """triggers that are raised as fast as 12 connections can hold nobody up"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(trigger_config(["t"]))
        if why:
            raise Failed(why)
        victim = world.victim()
        child = world.attack("stranger", raise_triggers, world.producer, 20)
        child.wait_ready(20)
        time.sleep(2)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > 1.0 * get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def enable_as(seat, more):
    def attack(ready, path):
        why = Consumer(path).enable(field(1, field(1, 64)) + more)
        ready("refused" if why else "taken")
    return attack


def play_config(build, more):
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(field(1, field(1, 64)))
        if why:
            raise Failed(why)
        said = world.attack("member", enable_as("member", more), world.consumer).wait_ready()
        time.sleep(0.3)
        consumer.settle()
        if said != "refused" or consumer.said:
            raise Failed("the config was %s; root's session: %s" % (said, consumer.said or "runs"))
        if Producer(world.producer, "late", []).is_refused:
            raise Failed("other users' producers are locked out")


def recorder(source, score=0):
    """The config of a flight recorder that all call the same, and of which there may be one."""
    return (field(1, field(1, 64)) + field(2, field(1, field(1, source))) + field(22, "flight")
            + (field(30, score) if score else b"") + field(39, field(1, "one") + field(2, 0)))


def keep_recorder(ready, path, source, score):
    consumer = Consumer(path)
    why = consumer.enable(recorder(source, score))
    globals()["kept"] = consumer
    ready(why or "taken")


def clone_own(path, source, selector):
    consumer = Consumer(path)
    consumer.call("CloneSession", selector)
    if not any(source.encode() in packet for packet in consumer.packets()):
        raise Failed("a clone by %s has not the session of %s" % ("name" if selector == NAMED else "score", source))


NAMED, BUGREPORT = field(4, "flight"), field(1, 2 ** 64 - 1)


def use_recorder(ready, path, source):
    keep_recorder(lambda said: said == "taken" or ready(said), path, source, 10)
    try:
        for selector in NAMED, BUGREPORT:
            clone_own(path, source, selector)
    except Failed as why:
        ready(str(why))
    ready("taken")


def taken_names(build):
    """a member's name, semaphore and bugreport_score take no session, and no clone of their own, from root and others"""
    with World(build) as world:
        said = world.attack("member", keep_recorder, world.consumer, "com.example.member", 2 ** 31 - 1).wait_ready()
        said = said if said != "taken" else world.attack("neighbour", use_recorder, world.consumer, "com.example.neighbour").wait_ready()
        if said != "taken":
            raise Failed("another user's session: " + said)
        root = Consumer(world.consumer)
        why = root.enable(recorder("com.example.root", 10))
        if why:
            raise Failed("root's session: " + str(why))
        for selector in NAMED, BUGREPORT:
            clone_own(world.consumer, "com.example.root", selector)


def exclusive_session(build):
    """a member of the group cannot end root's session by exclusive_prio"""
    play_config(build, field(41, 1000))


def lockdown(build):
    """nor lock other users' producers out, whether the config is refused or not"""
    play_config(build, field(5, 2))
    play_config(build, field(5, 2) + field(3, 604800001))


def privileged_group(build):
    """only members of --privileged-group may, by any of their groups, besides root and the service's user"""
    with World(build, options=("--privileged-group", str(GROUP))) as world:
        for seat, wanted in (("stranger", "refused"), ("neighbour", "refused"), ("member", "taken")):
            said = world.attack(seat, enable_as(seat, field(41, 1000)), world.consumer).wait_ready()
            if said != wanted:
                raise Failed("the %s's config was %s" % (seat, said))
    with World(build, options=("--privileged-group", str(SEATS["neighbour"][1]))) as world:
        said = world.attack("neighbour", enable_as("neighbour", field(5, 2)), world.consumer).wait_ready()
        if said != "taken":
            raise Failed("the config of a user whose own group it is was " + said)
    with World(build, options=("--privileged-group", "no-such-group")) as world:
        if not any("privileged-group-missing" in line for line in world.log_lines()):
            raise Failed("a group that is missing is not said")
        said = world.attack("member", enable_as("member", field(41, 1000)), world.consumer).wait_ready()
        if said != "refused":
            raise Failed("without the group the member's config was " + said)
    with World(build, options=("--user", str(SERVICE_USER)), as_root=True) as world:
        why = Consumer(world.consumer, SERVICE_USER).enable(field(1, field(1, 64)) + field(41, 1000))
        if why:
            raise Failed("the user that the service has become may not: " + why)


def fill(part, limit=120000):
    """As many as a frame has room for; and how many these are."""
    out, size = [], 0
    while size + len(part(len(out))) < limit:
        out.append(part(len(out)))
        size += len(out[-1])
    return b"".join(out), len(out)


def enable_all(ready, path, configs):
    """Leaves its sessions to themselves."""
    consumers = [Consumer(path) for _ in configs]
    for consumer, config in zip(consumers, configs):
        consumer.invoke("EnableTracing", field(1, config), lambda *_: None)
    ready()


def many_producers(ready, path, number, name):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + 100, number + 100))
    kept = [Producer(path, name, ["src"]) for _ in range(number)]
    ready(str(len(kept)))


def play_configs(build, configs, producers=0, name="p", then=None, longest_s=1.0):
    """Five sessions of a member's."""
    with World(build) as world:
        if producers:
            world.attack("neighbour", many_producers, world.producer, producers, name).wait_ready()
        victim = world.victim()
        world.attack("member", enable_all, world.consumer, configs).wait_ready()
        if then is not None:
            then(world)
        time.sleep(0.5)
        end = time.monotonic() + 20
        while victim.worst_s() < longest_s and victim.failed is None and time.monotonic() < end:
            answers = victim.answers
            time.sleep(0.3)
            if victim.answers > answers + 5:
                break
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > longest_s:
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst, world.log_lines()


BUFFER, SOURCE = field(1, field(1, 64)), field(2, field(1, field(1, "src")))


def costly_filters_of(source):
    filters = b"".join(field(3, "(?:%d|((a+)+)+[bd])" % i) for i in range(100))
    return BUFFER + field(2, field(1, field(1, source)) + filters)


def costly_patterns(build):
    """regular expressions that take for ever, on names made for them, hold nobody up"""
    config = costly_filters_of("src")
    note, log = play_configs(build, [config] * 5, 100, "a" * 40)
    if not any("producer-not-judged" in line for line in log):
        raise Failed("the log does not say it")
    return note


def start_many(ready, path, number, config):
    kept = [Consumer(path) for _ in range(number)]
    ready("; ".join(why for why in (consumer.enable(config) for consumer in kept) if why) or "ready")


def register_one(ready, path, name):
    """Says how long the service took."""
    producer, begin = Producer(path, name, []), time.monotonic()
    producer.call("RegisterDataSource", field(1, field(1, "src")))
    ready("%.3f" % (time.monotonic() - begin))


def costly_patterns_in_many_sessions(build):
    """nor do a hundred sessions with such expressions, where a user may have as many"""
    with World(build, options=["--max-sessions", "100"]) as world:
        said = world.attack("member", start_many, world.consumer, 100, costly_filters_of("src")).wait_ready()
        if said != "ready":
            raise Failed(said)
        begin_ns = world.loop_ns()
        waited = float(world.attack("stranger", register_one, world.producer, "a" * 40).wait_ready())
        took = (world.loop_ns() - begin_ns) / 1e9
        note = "one data source took the service %.3f s, the stranger waited %.3f" % (took, waited)
        if took > 0.2 or not any("producer-not-judged" in line for line in world.log_lines()):
            raise Failed(note)
        return note


def begin_and_end(ready, path, number, config):
    for _ in range(number):
        consumer = Consumer(path)
        consumer.enable(config)
        consumer.close()
    ready()


def events_of_others(build):
    """whose sessions have names of 100 KB, or come by the thousand, keeps no others out of root's trace of sessions"""
    with World(build) as world:
        root = Consumer(world.consumer)
        why = root.enable(BUFFER + SOURCE + field(20, field(10, 1)))
        if why:
            raise Failed(why)
        for number, name in ((14, "N" * 100000), (1200, "n")):
            world.attack("member", begin_and_end, world.consumer, number, BUFFER + SOURCE + field(22, name)).wait_ready()
        said = world.attack("neighbour", start_many, world.consumer, 1, BUFFER + SOURCE + field(22, "mine")).wait_ready()
        packets = root.packets()
        if said != "ready" or not any(b"\x04mine" in packet for packet in packets):
            raise Failed("the neighbour's session is not in root's trace: %s, %d packets" % (said, len(packets)))
        if not any("session-events-missing" in line for line in world.log_lines()):
            raise Failed("the log does not say what is missing")
        return "%d packets" % len(packets)


def wide_patterns(build):
    """nor do classes that ignore case and have all characters, each of which is compiled character by character"""
    pattern = "(?i)" + r"[\x{100}-\x{10ffff}]" * 170
    return play_configs(build, [BUFFER + SOURCE + string_filter(pattern, rules) for rules in (5, 10, 15, 20, 30)])[0]


def costly_semaphores(build):
    """nor do thousands of semaphores"""
    config = fill(lambda i: field(39, field(1, "s%05d" % i) + field(2, 100)))[0]
    return play_configs(build, [BUFFER + config] * 5)[0]


def thousands_of_triggers(build):
    """nor the last of ten thousand triggers, raised as often as a user may"""
    triggers, number = fill(lambda i: field(2, field(1, "t%05d" % i) + field(4, 1000)))

    def raise_last(world):
        producer = Producer(world.producer, "hostile", [])
        producer.invoke("ActivateTriggers", field(1, "t%05d" % (number - 1)) * 1024, lambda *_: None)
    config = BUFFER + field(17, field(1, 4) + triggers + field(3, 86400000))
    return play_configs(build, [config] * 5, then=raise_last)[0]


def thousands_of_producers(build):
    """nor a list of thousands of producers, or filters, that is looked through for each of a thousand"""
    producers = fill(lambda i: field(6, field(1, "s%05d" % i)))[0]
    filters = fill(lambda i: field(2, "s%05d" % i))[0]
    configs = [BUFFER + SOURCE + producers,
               BUFFER + field(2, field(1, field(1, "src")) + filters)]
    return play_configs(build, configs, 1000, longest_s=0.5)[0]


def enable_and_change(ready, path, configs):
    """And asks something, which is answered afterwards."""
    for config in configs:
        consumer = Consumer(path)
        consumer.invoke("EnableTracing", field(1, config), lambda *_: None)
        for _ in range(2):
            consumer.call("ChangeTraceConfig", field(1, config))
        consumer.call("QueryCapabilities")
        consumer.close()
    ready()


def one_name(build):
    """nor do a thousand data sources of one name, with a filter or without, beside 16,384 registered ones"""
    with World(build) as world:
        world.attack("neighbour", take_sources, world.producer, 64, 256, 0, "src").wait_ready()
        before = world.loop_ns()
        configs = [BUFFER + one * 1024 for one in (SOURCE, field(2, field(1, field(1, "src")) + field(2, "none")),
                                                   field(2, field(1, field(1, "other"))))]
        said = world.attack("member", enable_and_change, world.consumer, configs).wait_ready()
        took_s = (world.loop_ns() - before) / 1e9
        if said != "ready" or took_s > 1.0:
            raise Failed("%s: %.2f s of the service's loop" % (said, took_s))
        return "%.2f s of the service's loop" % took_s


def notify(producer, number):
    """Of an instance that it does not have."""
    for _ in range(number):
        producer.invoke("NotifyDataSourceStarted", field(1, 1 << 40), lambda *_: None)
    producer.call("Sync")


def have_instances(ready, producers, consumers, number):
    producer = Producer(producers, "hostile", ["a", "b"])
    kept = [Consumer(consumers) for _ in range(5)]
    for consumer in kept:
        consumer.friends.append(producer)
        why = consumer.enable(BUFFER + b"".join(field(2, field(1, field(1, "ab"[i % 2]))) for i in range(number)))
        if why:
            raise AssertionError(why)
        producer.settle()
    loop_ns = World.loop_ns(have_instances.world)
    notify(producer, 1000)
    notified_ns = World.loop_ns(have_instances.world)
    producer.call("UnregisterDataSource", field(1, "b"))
    producer.call("Sync")
    ready("%d %d" % (notified_ns - loop_ns, World.loop_ns(have_instances.world) - notified_ns))


def many_instances(build):
    """nor does a producer with 5000 instances that says so, or unregisters the last ones, cost more than another"""
    with World(build) as world:
        have_instances.world = world
        quiet = world.attack("neighbour", have_instances, world.producer, world.consumer, 2).wait_ready()
        said = world.attack("member", have_instances, world.producer, world.consumer, 1000).wait_ready()
        note = "quiet %s, attacked %s ns of the loop for 1000 notifications, and for all that is unregistered" % (
            quiet, said)
        if not all(part.isdigit() for part in (quiet + said).split()):
            raise Failed(note)
        quiet, (notified_ns, unregistered_ns) = [[int(ns) for ns in line.split()] for line in (quiet, said)]
        if notified_ns > 3 * quiet[0] + 5e6 or unregistered_ns > 100e6:
            raise Failed(note)
        return note


def string_filter(pattern, rules=1, more_words=()):
    """Of field 900 of each packet; `more_words` of bytecode are further messages."""
    words, checksum = [1 << 3 | 3, 1, 0, 900 << 3 | 4, 0, *more_words], 14695981039346656037
    for byte in b"".join(word.to_bytes(4, "little") for word in words):
        checksum = (checksum ^ byte) * 1099511628211 & (1 << 64) - 1
    code = b"".join(map(varint, words + [checksum & 0xFFFFFFFF]))
    return field(33, field(1, code) + field(3, field(1, field(1, 1) + field(2, pattern) + field(5, 0)) * rules))


def read_filtered(ready, consumers, producers, number):
    kept = []
    packet = fragments(field(900, "a" * 4000))
    for i in range(number):
        consumer = Consumer(consumers)
        consumer.enable(field(1, field(1, 1024)) + field(2, field(1, field(1, "s%d" % i)))
                        + string_filter(".*.*.*.*[bd]"))
        producer = SmbProducer(producers, "s%d" % i).join()
        producer.start()
        for _ in range(12):
            producer.commit(b"".join(producer.move(producer.put(packet, 1)) for _ in range(16)))
        consumer.call("DisableTracing")
        consumer.invoke("ReadBuffers", b"", lambda *_: None)
        kept += [consumer, producer]
    ready()


def costly_filters(build):
    """a filter's regular expressions that take for ever take no other user the threads"""
    with World(build) as world:
        world.attack("member", read_filtered, world.consumer, world.producer, 5).wait_ready()
        consumer = Consumer(world.consumer, SEATS["neighbour"][0])
        why = consumer.enable(BUFFER + SOURCE + field(24, 1))
        if why:
            raise Failed(why)
        consumer.call("DisableTracing")
        begin = time.monotonic()
        answer = consumer.call("ReadBuffers")
        took_s = time.monotonic() - begin
        if answer is None or not answer[0] or took_s > 2 * get_slowness():
            raise Failed("another user's compressed trace: %.1f s, %r" % (took_s, answer and answer[0]))
        world.service.kill()  # it would wait for its threads
        return "another user's compressed trace came after %.3f s" % took_s


def read_one_packet(ready, consumers, producers, pattern, packet):
    consumer = Consumer(consumers)
    consumer.enable(field(1, field(1, 1024)) + field(2, field(1, field(1, "s"))) + string_filter(pattern))
    producer = LargePages(producers, "s").join()
    producer.start()
    producer.commit(producer.move(producer.put(fragments(packet), 1)))
    consumer.call("DisableTracing")
    consumer.invoke("ReadBuffers", b"", lambda *_: None)
    time.sleep(0.2)
    ready()


def stopped_filter(build):
    """nor does a stop of the service wait for the one packet at which a thread is"""
    return ", ".join(stop_within(build, pattern, packet) for pattern, packet in (
        (".*.*.*.*[bd]", field(900, "a" * 200) * 150),  # of many strings, each of which takes a filter long
        (".*?.*?a*+[bd]", field(900, "a" * 30000))))  # of one, each step at which takes it long


def fill_pipe(ready, consumers, producers):
    """Sessions that write into a pipe which nobody reads."""
    kept, (_, write) = [], os.pipe()
    packet = fragments(field(900, "a" * 30000))
    for i in range(5):
        consumer = Consumer(consumers)
        why = consumer.enable(field(1, field(1, 8192)) + field(2, field(1, field(1, "s%d" % i)))
                              + field(8, 1) + field(9, 100), fd=write)
        if why:
            raise AssertionError(why)
        producer = LargePages(producers, "s%d" % i).join()
        producer.start()
        for _ in range(10):
            producer.commit(b"".join(producer.move(producer.put(packet, 1)) for _ in range(8)))
        kept += [consumer, producer]
    time.sleep(1)  # a period, and the pipe is full
    ready()


def unread_pipe(build):
    """nor does a stop wait for a pipe that a session writes into and nobody reads"""
    with World(build) as world:
        said = world.attack("member", fill_pipe, world.consumer, world.producer).wait_ready()
        if said != "ready":
            raise Failed(said)
        begin = time.monotonic()
        world.service.terminate()
        try:
            world.service.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed("the service did not stop in %d s" % LIMIT_S) from None
        if not any("trace-files-abandoned" in line for line in world.log_lines()):
            raise Failed("the log does not say what was given up: %s" % world.log_lines()[-1])
        return "the service stopped after %.1f s" % (time.monotonic() - begin)


def stop_within(build, pattern, packet):
    with World(build) as world:
        said = world.attack("member", read_one_packet, world.consumer, world.producer, pattern, packet).wait_ready()
        if said != "ready":
            raise Failed(said)
        begin = time.monotonic()
        world.service.terminate()
        try:
            world.service.wait(15)
        except subprocess.TimeoutExpired:
            world.service.kill()
            raise Failed("the service did not stop in 15 s") from None
        took_s = time.monotonic() - begin
        if took_s > 1.0 * get_slowness():
            raise Failed("the service stopped after %.2f s" % took_s)
        return "the service stopped after %.3f s" % took_s


def repeat_request(ready, path, connections, config, seconds):
    """On each connection, as fast as the service reads."""
    consumers = [Consumer(path) for _ in range(connections)]
    body = field(2, 100) + field(5, field(1, consumers[0].service) + field(
        2, consumers[0].methods["EnableTracing"]) + field(3, field(1, config)))
    frame = struct.pack("<I", len(body)) + body
    left = {consumer.sock: b"" for consumer in consumers}
    for sock in left:
        sock.setblocking(False)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for sock in left:
            left[sock] = left[sock] or frame
            for call in (lambda: left.update({sock: left[sock][sock.send(left[sock]):]}), lambda: sock.recv(65536)):
                with contextlib.suppress(BlockingIOError):
                    call()
        time.sleep(0.001)
    ready()


COSTLY_FILTER = field(1, field(1, 0)) + field(33, field(3, b"".join(
    field(1, field(1, 1) + field(2, "(?:a{9}){480}(?:b{9}){500}%d" % i)) for i in range(500))))


def costly_requests(build):
    """requests that cost much, on 50 connections at once, take a part of the time and no more"""
    with World(build) as world:
        victim = world.victim()
        child = world.attack("member", repeat_request, world.consumer, 50, COSTLY_FILTER, 3)
        child.wait_ready()
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > 1.0 * get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def operators_requests(build):
    """nor do they keep out other connections of that user: operators come by the agent, and are one user"""
    with World(build) as world:
        world.attack("member", repeat_request, world.consumer, 4, COSTLY_FILTER, 600)
        begin = time.monotonic()
        while world.loop_ns() < 300e6:  # he is above his part
            if time.monotonic() > begin + 60:
                raise Failed("the requests do not come")
            time.sleep(0.05)
        begin = time.monotonic()
        try:
            for _ in range(3):
                client = Consumer(world.consumer, SEATS["member"][0])
                if client.call("QueryCapabilities") is None:
                    raise Failed("the service closed the connection")
                client.sock.close()
        except TimeoutError:
            raise Failed("another connection of that user gets no answer") from None
        return "another connection of that user waited %.2f s" % ((time.monotonic() - begin) / 3)


def read_answers_all_the_time(ready, consumers, producers, connections, seconds):
    """Large answers, on each connection as fast as the service sends."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (connections + 100, connections + 100))
    producer = Producer(producers, "large", ["plain"])
    for i in range(200):
        producer.register("source%d" % i, i + 10, 16000)
    readers, selector = [Consumer(consumers) for _ in range(connections)], selectors.EpollSelector()
    body = field(2, 1000) + field(5, field(1, readers[0].service) + field(
        2, readers[0].methods["QueryServiceState"]))
    question = struct.pack("<I", len(body)) + body
    for reader in readers:
        reader.sock.setblocking(False)
        selector.register(reader.sock, selectors.EVENT_READ)
        reader.sock.send(question * 4)
    end, room = time.monotonic() + seconds, bytearray(1 << 20)
    while time.monotonic() < end:
        for key, _ in selector.select(0.05):
            with contextlib.suppress(BlockingIOError):
                if key.fileobj.recv_into(room) < 200000:
                    key.fileobj.send(question)
    ready()


def answers_read(build):
    """nor do large answers that 1000 connections of one user read"""
    with World(build) as world:
        child = world.attack("member", read_answers_all_the_time, world.consumer, world.producer, 1000, 600)
        victim, answers = Consumer(world.consumer), []
        begin = time.monotonic()
        while world.loop_ns() < 1e9:  # the answers are sent
            if time.monotonic() > begin + LIMIT_S or child.wait_ready(0) != "late":
                raise Failed("the questions do not come")
            time.sleep(0.05)
        for _ in range(50):
            begin = time.monotonic()
            victim.call("QueryCapabilities")
            answers.append(time.monotonic() - begin)
            time.sleep(0.01)
        median = sorted(answers)[len(answers) // 2]
        if median > 0.05 * get_slowness():
            raise Failed("the victim waited %.3f s" % median)
        return "the victim waited %.4f s" % median


def repeat_sync(ready, path, connections, seconds):
    """What is cheap, as often as the sockets take."""
    producers = [Producer(path, "hostile", []) for _ in range(connections)]
    body = field(2, 100) + field(5, field(1, producers[0].service) + field(2, producers[0].methods["Sync"]))
    frames = (struct.pack("<I", len(body)) + body) * 3000
    left = {producer.sock: b"" for producer in producers}
    for sock in left:
        sock.setblocking(False)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for sock in left:
            left[sock] = left[sock] or frames
            for call in (lambda: sock.recv(65536), lambda: left.update({sock: left[sock][sock.send(left[sock]):]})):
                with contextlib.suppress(BlockingIOError):
                    call()
    ready()


def producers_requests(build):
    """requests of 600 producers that fill their sockets do not fill a turn of the loop"""
    with World(build) as world:
        victim = world.victim()
        world.attack("stranger", repeat_sync, world.producer, 600, 6).wait_ready()
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > 1.0 * get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


class LargePages(SmbProducer):
    page_bytes = 32768


def fill_session(consumers, producers, megabytes):
    """A session whose buffer is full, and its producer."""
    source = Consumer(consumers)
    why = source.enable(field(1, field(1, megabytes << 10)) + field(2, field(1, field(1, "large"))))
    if why:
        raise AssertionError(why)
    producer = LargePages(producers, "large").join()
    producer.start()
    packet = fragments(field(900, "a" * (LargePages.page_bytes - 64)))
    for _ in range((megabytes << 20) // LargePages.page_bytes // 16):
        producer.commit(b"".join(producer.move(producer.put(packet, 1)) for _ in range(16)))
    return source, producer


def clone_often(ready, consumers, producers, megabytes, number):
    """Says how long a clone took."""
    source, producer = fill_session(consumers, producers, megabytes)
    session = source.state()[-1][1][0]
    took_s = []
    for _ in range(number):
        clone, begin = Consumer(consumers), time.monotonic()
        clone.friends = [producer]  # which acknowledges the flush
        answer = clone.call("CloneSession", field(1, session))
        took_s.append(time.monotonic() - begin)
        if answer is None or not dict(fields(answer[1])).get(1):
            raise AssertionError("no clone: %r" % (answer and answer[1]))
        clone.call("FreeBuffers")
    ready("%.3f" % (sum(took_s) / number))


def large_clones(build):
    """clones of a buffer of 600 MiB hold nobody up while they are copied"""
    with World(build) as world:
        victim = world.victim()
        child = world.attack("member", clone_often, world.consumer, world.producer, 600, 8)
        said = child.wait_ready(120)
        if not said.replace(".", "").isdigit():
            raise Failed(said)
        clone_s = float(said)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > max(clone_s / 3, 0.15 * get_slowness()):
            raise Failed("the victim waited %.3f s, a clone %.3f s %s" % (worst, clone_s, failed or ""))
        return "the victim waited %.3f s at most, a clone %.3f s" % (worst, clone_s)


def filters_of_clones(build):
    """nor do clones of a session whose filter takes long to compile: they share it"""
    rule = "(?i)[\\x{100}-\\x{10ffff}]" + "a(b|c)*" * 480
    with World(build) as world:
        source, clones, begin_ns = Consumer(world.consumer), [Consumer(world.consumer) for _ in range(60)], world.loop_ns()
        why = source.enable(field(1, field(1, 4)) + field(2, field(1, field(1, "none"))) + field(22, "s")
                            + string_filter(rule))
        if why:
            raise Failed(why)
        once_ns, begin_ns = world.loop_ns() - begin_ns, world.loop_ns()
        for clone in clones:
            answer = clone.call("CloneSession", field(4, "s"))
            if answer is None or not dict(fields(answer[1])).get(1):
                raise Failed("no clone: %r" % (answer and answer[1]))
        each_ns = (world.loop_ns() - begin_ns) / len(clones)
        said = "of the loop the session took %.3f ms, a clone %.3f ms" % (once_ns / 1e6, each_ns / 1e6)
        if each_ns > once_ns / 4:
            raise Failed(said)
        return said


def free_often(ready, consumers, producers, megabytes, number):
    """Says how long the service took to free them."""
    took_s = []
    for _ in range(number):
        source, producer = fill_session(consumers, producers, megabytes)
        begin = time.monotonic()
        source.call("FreeBuffers")
        took_s.append(time.monotonic() - begin)
        producer.sock.close()
        source.sock.close()
    ready("%.4f" % max(took_s))


def freed_buffers(build):
    """nor do buffers of 600 MiB while their memory is released"""
    with World(build) as world:
        victim = world.victim()
        said = world.attack("member", free_often, world.consumer, world.producer, 600, 4).wait_ready(120)
        if not said.replace(".", "").isdigit():
            raise Failed(said)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > 0.15 * get_slowness():
            raise Failed("the victim waited %.3f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most, FreeBuffers took %s s" % (worst, said)


def file_config(path):
    return field(8, 1) + field(29, path)


def output_path(build):
    """a member of the group has no file of root's, or of the service's user, made where he likes"""
    for as_root in (True, False):
        with World(build, as_root=as_root) as world:
            there = world.dir / "roots"  # where the member may write nothing
            there.mkdir()
            os.chown(there, 0 if as_root else SERVICE_USER, 0)
            path = str(there / "file")
            said = world.attack("member", enable_as("member", file_config(path)), world.consumer).wait_ready()
            if said != "refused" or os.path.exists(path):
                raise Failed("as root: %s; the config was %s; the file %s" % (
                    as_root, said, "is there" if os.path.exists(path) else "is not"))
            if not any("output-path-limited" in line for line in world.log_lines()):
                raise Failed("the service does not say it at its start")
            why = Consumer(world.consumer).enable(field(1, field(1, 64)) + file_config(path))
            if why or not os.path.exists(path):
                raise Failed("root may not, either: %s" % why)


@contextlib.contextmanager
def output_folder(mode):
    """Of the service's user, for --output-dir."""
    with tempfile.TemporaryDirectory(prefix="pfl.", dir="/tmp") as name:
        os.chown(name, SERVICE_USER, SERVICE_USER)
        os.chmod(name, mode)
        yield pathlib.Path(name)


def names_in_order(folder):
    return sorted(path.name for path in folder.iterdir())


def output_path_segments(build):
    """nor can he put a file in the way of the next segment of root's trace"""
    with output_folder(0o755) as folder, World(build, options=("--output-dir", str(folder))) as world:
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, 64)) + file_config(str(folder / "root")) + field(9, 100)
                          + field(50001, field(2, 1000)))
        if why:
            raise Failed(why)
        for name in ("root.000002", "root.000003", "root.0000004"):
            config = file_config(str(folder / name))
            said = world.attack("member", enable_as("member", config), world.consumer).wait_ready()
            if said != "refused":
                raise Failed("the file %s was %s" % (name, said))
        end = time.monotonic() + 60
        while not (folder / "root.000003").exists() and time.monotonic() < end and not root.said:
            root.settle()
            time.sleep(0.1)
        if root.said or not (folder / "root.000003").exists():
            raise Failed("root's session: %s; files: %s" % (root.said, names_in_order(folder)))


def rotate_once(ready, consumers, path):
    """A rotation that shortens its index after each segment; ready when it has done so."""
    consumer = Consumer(consumers)
    why = consumer.enable(field(1, field(1, 64)) + file_config(str(path)) + field(9, 100)
                          + field(50001, field(2, 1000) + field(3, 1) + field(4, 1)))
    if why:
        raise AssertionError(why)
    end = time.monotonic() + 60
    while time.monotonic() < end and not consumer.said and b"shortened" not in path.with_name(
            path.name + ".index").read_bytes():
        consumer.settle()
        time.sleep(0.1)
    ready("done" if b"shortened" in path.with_name(path.name + ".index").read_bytes() else "never")


def output_path_index(build):
    """nor does his rotation remove the index of root's, whose name is that of his own one's next, when it shortens it"""
    with output_folder(0o755) as folder, World(build, options=("--output-dir", str(folder))) as world:
        root = Consumer(world.consumer)
        why = root.enable(field(1, field(1, 64)) + file_config(str(folder / "trace.new")) + field(9, 100)
                          + field(50001, field(2, 1000)))
        if why:
            raise Failed(why)
        index = folder / "trace.new.index"
        before = index.stat().st_ino
        said = world.attack("member", rotate_once, world.consumer, folder / "trace").wait_ready()
        if said != "done":
            raise Failed("his index was not shortened: %s" % said)
        if not index.exists() or index.stat().st_ino != before:
            raise Failed("root's index is gone; files: %s" % names_in_order(folder))


def swap_folder(ready, consumers, folder):
    """A rotation in a folder of his, which becomes a link to root's; says the folder's files at the end."""
    own = folder / "own"
    own.mkdir()
    own.chmod(0o777)
    consumer = Consumer(consumers)
    why = consumer.enable(field(1, field(1, 64)) + file_config(str(own / "trace")) + field(9, 100)
                          + field(50001, field(2, 1000) + field(3, 2)))
    if why:
        raise AssertionError(why)
    own.rename(folder / "moved")
    own.symlink_to(folder / "roots")
    end = time.monotonic() + 60
    while time.monotonic() < end and not consumer.said and not any(
            (folder / where / "trace.000003").exists() for where in ("moved", "roots")):
        consumer.settle()
        time.sleep(0.1)
    ready()


def output_path_swapped(build):
    """nor does a rotation in a folder that he swaps make or remove files in root's"""
    with output_folder(0o1777) as folder, World(build, options=("--output-dir", str(folder))) as world:
        roots = folder / "roots"
        roots.mkdir()
        (roots / "trace.000001").write_text("root's")
        for path in (roots, roots / "trace.000001"):
            os.chown(path, SERVICE_USER, SERVICE_USER)
        said = world.attack("member", swap_folder, world.consumer, folder).wait_ready(2 * LIMIT_S)
        if said != "ready" or names_in_order(roots) != ["trace.000001"]:
            raise Failed("%s; in root's folder: %s" % (said, names_in_order(roots)))
        if not (folder / "moved" / "trace.000003").exists():
            raise Failed("the rotation does not go on: %s" % names_in_order(folder / "moved"))


def output_path_fifo(build):
    """what is there already, a FIFO or a socket, is not opened, and holds nobody up"""
    with World(build) as world:
        there = world.dir / "open"
        there.mkdir()
        there.chmod(0o777)
        os.mkfifo(there / "fifo")
        os.chmod(there / "fifo", 0o666)
        victim = world.victim()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(there / "sock"))
            for name in ("fifo", "sock"):
                why = Consumer(world.consumer).enable(field(1, field(1, 64)) + file_config(str(there / name)))
                if not why:
                    raise Failed("%s was taken" % name)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or worst > 1.0 * get_slowness():
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def answer_creation(opcode, data, made=set()):
    """The body, and an errno: files but an index can be made, and no answer to their removal comes."""
    attr = struct.pack("<QQQQQQIIIIIIIIII", 2, *[0] * 8, 0o100644, 1, 0, 0, 0, 4096, 0)
    entry = struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attr
    if opcode == 1:  # LOOKUP
        return (entry, 0) if data[40:] in made else (b"", -2)
    if opcode == 35:  # CREATE
        if b".index" in data:
            return b"", -13
        made.add(data[56:])
        return entry + struct.pack("<QII", 1, 0, 0), 0
    if opcode == 4:  # SETATTR
        return struct.pack("<QII", 0, 0, 0) + attr, 0
    return (b"", -38) if opcode == 25 else None  # FLUSH


def serve_nothing(ready, target, answer=lambda opcode, data: None):
    """A file system that anybody reaches, and that never says whether a file is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = os.open("/dev/fuse", os.O_RDWR)
    except OSError as why:
        ready("SKIP %s" % why)
        return
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fd
    if libc.mount(b"fuse", target.encode(), b"fuse", 0, options.encode()) != 0:
        ready("SKIP no FUSE: " + os.strerror(ctypes.get_errno()))
        return
    if os.fork() == 0:
        while True:
            data = os.read(fd, 1 << 20)
            _, opcode, unique, node = struct.unpack_from("<IIQQ", data)
            answered = answer(opcode, data)
            if answered:
                os.write(fd, struct.pack("<IiQ", 16 + len(answered[0]), answered[1], unique) + answered[0])
                continue
            if opcode == 26:  # INIT
                body = struct.pack("<IIIIHHIIHHIIIIIIII", 7, 31, 0, 0, 0, 0, 4096, 1, *[0] * 10)[:64]
            elif opcode == 3:  # GETATTR
                body = struct.pack("<QII", 0, 0, 0) + struct.pack(
                    "<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 1, 0, 0, 0, 4096, 0)
            else:
                continue
            os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
    os.close(fd)
    ready()


def output_path_hangs(build):
    """a file system that never answers holds nobody up when a config names a file there, ten times over"""
    return name_hanging_files(build, b"")


def output_path_hangs_later(build):
    """nor does one that makes a session's first file, not its index, and never removes the first again"""
    return name_hanging_files(build, ROTATION, answer_creation)


def name_hanging_files(build, more, *answer):
    with World(build) as world:
        hanging = str(world.dir / "hanging")
        os.mkdir(hanging)
        server = world.attack(None, serve_nothing, hanging, *answer)
        said = server.wait_ready()
        if said != "ready":
            if said.startswith("SKIP"):
                return said
            raise Failed(said)
        try:
            victim = world.victim()
            named = [field(1, field(1, 64)) + file_config("%s/file%d" % (hanging, i)) + more for i in range(10)]
            attackers = [Consumer(world.consumer, SERVICE_USER) for _ in range(10)]
            for attacker, config in zip(attackers, named):
                attacker.invoke("EnableTracing", field(1, config), lambda *_: None)
            time.sleep(3)
            worst, failed = victim.worst_s(), victim.failed
            victim.is_ending = True
            if failed or not world.is_alive() or worst > 1.0 * get_slowness():
                raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
            return "the victim waited %.3f s at most" % worst
        finally:
            server.end()
            world.children.remove(server)
            ctypes.CDLL(None).umount2(hanging.encode(), 2)  # MNT_DETACH
