#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a table of configs against a tracing service and compares what it does with a recording.

  config_table.py check TABLE RECORDING NAME CONSUMER_SOCKET PRODUCER_SOCKET
  config_table.py record TABLE RECORDING NAME CONSUMER_SOCKET PRODUCER_SOCKET

NAME is `perfetto` or `perfleetd`. The table's scenarios begin with a line
    [what it is about] OPTION...
Options: field=NAME, which a refusal by perfleetd has to name; root, for other users' connections;
own="WHY": perfleetd does otherwise than Perfetto, so that it has a recording of its own, and WHY
is in docs/compatibility.md too; kills: Perfetto's service ends, so it is spared; any-order: a timer
ends the session, and what each connection receives of it may be seen in any order. Then steps, one a line, lines with four spaces go on:
    a: CONFIG       EnableTracing on connection a, in text format; `a fd:` with a descriptor;
                    $DIR is a directory of the test's own. A name with `!` is of another user
    a VERB [ARG]    start, disable, free, flush, read, close, state, detach KEY, attach KEY, observe MASK,
                    clone N (the N-th session of the scenario), until STATE|ended, sources (those registered
                    by steps, with their descriptors' sizes, and whether each reply has room in a frame)
    p VERB [ARG]    the producer: hold KIND, release, until BEGIN or =LINE, trigger NAME,
                    another NAME, register NAME [BYTES of its descriptor], unregister NAME, close
Each scenario has a producer of its own with the data sources of service_peers.py. Refusals are
compared as refusals, not by their words. Prints a TAP line a scenario."""
import json
import os
import re
import shlex
import sys
import tempfile
import time

import config_text
from service_peers import Consumer, Producer, dict_of_lists, field, fields

OTHER_UID = 65534
FRAME_MAX = 131068


def read_table(path):
    scenarios, steps = [], None
    with open(path, encoding="utf-8") as table:
        for line in table:
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("["):
                name, _, rest = line[1:].partition("]")
                steps = []
                options = dict(o.partition("=")[::2] for o in shlex.split(rest))
                scenarios.append((name, options, steps))
            elif line.startswith("    "):
                steps[-1] += " " + line.strip()
            else:
                steps.append(line)
    return scenarios


class Run:
    def __init__(self, consumer_path, producer_path):
        self.consumer_path = consumer_path
        self.producer_path = producer_path
        self.lines = []
        self.consumers = {}
        self.session_ids = []
        self.producer = Producer(producer_path)
        self.others = []
        self.filled = 0  # data sources with descriptors of a size
        self.dir = tempfile.TemporaryDirectory(prefix="pfl.")
        os.chmod(self.dir.name, 0o777)

    def say(self, what):
        self.lines.append(what)

    def consumer(self, name):
        if name not in self.consumers:
            self.consumers[name] = Consumer(self.consumer_path,
                                            OTHER_UID if "!" in name else None)
            self.consumers[name].friends = [self.producer]
        return self.consumers[name]

    def settle(self):
        """Until all that one step causes has arrived."""
        for _ in range(2):
            for consumer in self.consumers.values():
                if not consumer.is_closed:
                    consumer.settle()
            self.producer.settle()
        for name, consumer in self.consumers.items():
            for what in consumer.said:
                self.say("%s %s" % (name, what))
            consumer.said.clear()
        received = [line for line in self.producer.received if not line.startswith(("flush", "clear"))]
        for what in received:
            self.producer.received.remove(what)
            self.say("p received: " + what)

    def note_sessions(self, consumer):
        for session in consumer.state():
            if session[1][0] not in self.session_ids:
                self.session_ids.append(session[1][0])

    def enable(self, who, config):
        name, *how = who.split()
        fd = None
        if "fd" in how:
            fd = os.open(os.path.join(self.dir.name, "fd." + name),
                         os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
        consumer = self.consumer(name)
        config = config_text.encode(config.replace("$DIR", self.dir.name))
        why = consumer.enable(config, fd)
        if fd is not None:
            os.close(fd)
        self.say("%s: %s" % (name, "accepted" if why is None else "refused: " + why))
        self.note_sessions(consumer)

    def consumer_step(self, name, verb, arg):
        consumer = self.consumer(name)
        methods = {"start": ("StartTracing", b""), "disable": ("DisableTracing", b""),
                   "free": ("FreeBuffers", b""), "detach": ("Detach", field(1, arg)),
                   "flush": ("Flush", field(1, int(arg) if arg.isdigit() else 0)),
                   "attach": ("Attach", field(1, arg))}
        if verb == "close":
            consumer.close()
            del self.consumers[name]
        elif verb == "state":
            self.say_sessions(consumer)
        elif verb == "read":
            kinds = " ".join(kind_of(packet) for packet in consumer.packets())
            # How often a clock drifted is the host's business.
            # Nor, how many packets the compressor makes of them.
            self.say("%s read: %s" % (name, re.sub(r"\b(6|50|133)( \1)+\b", r"\1", kinds)))
        elif verb == "until" and arg == "ended":
            while not (consumer.said or "%s ended" % name in self.lines):
                consumer.dispatch()
        elif verb == "until":  # a state of its session
            end = time.monotonic() + 60
            while time.monotonic() < end and not any(
                    arg == s[3][0].decode() for s in consumer.state()):
                self.producer.settle()
                time.sleep(0.01)
        elif verb == "sources":
            self.say_sources(name, consumer)
        elif verb == "observe":
            consumer.invoke("ObserveEvents", field(1, int(arg)),
                            lambda success, _, data: consumer.said.extend(events_in(data)))
        elif verb == "clone":
            _, data = consumer.call("CloneSession", field(1, self.session_ids[int(arg)]))
            reply = dict(fields(data))
            self.say("%s clone: %s" % (name, "success" if reply.get(1) else
                                      "refused: " + reply.get(2, b"").decode()))
        else:
            success, data = consumer.call(*methods[verb])
            self.say("%s %s: %s%s" % (name, verb, "success" if success else "failure",
                                      " fields=%s" % sorted(dict_of_lists(data)) if data else ""))

    def producer_step(self, verb, arg):
        if verb == "hold":
            self.producer.holds.add(arg)
        elif verb == "release":
            self.producer.release()
        elif verb == "until":
            found = self.producer.wait_for(arg)
            self.say("p received: %s" % (arg.lstrip("=") if found else "nothing like " + arg))
        elif verb == "trigger":
            self.producer.call("ActivateTriggers", field(1, arg))
        elif verb == "register":
            source, _, size = arg.partition(" ")
            self.filled += bool(size)
            self.producer.register(source, 99 + self.filled, int(size or 0))
        elif verb == "unregister":
            self.producer.call("UnregisterDataSource", field(1, arg))
        elif verb == "close":
            self.producer.close()
            self.producer = Producer(self.producer_path, "second.producer")
            for consumer in self.consumers.values():
                consumer.friends = [self.producer]
        elif verb == "another":
            name = arg.rstrip("!")
            other = Producer(self.producer_path, name, uid=OTHER_UID if "!" in arg else None)
            self.others.append(other)
            self.say("another producer is %s" % ("refused" if other.is_refused else "served"))
            for line in other.received:
                self.say(name + " received: " + line)
        else:
            raise ValueError("p " + verb)

    def say_sessions(self, consumer):
        for session in sorted(consumer.state(), key=lambda s: s[1][0]):
            self.say("session %s name=%s buffers=%s duration=%d sources=%d started=%d" % (
                session[3][0].decode(), session.get(4, [b""])[0].decode(), session.get(5, []),
                session.get(6, [0])[0], session.get(7, [0])[0], session.get(11, [0])[0]))

    def say_sources(self, name, consumer):
        consumer.largest = 0
        answer = consumer.call("QueryServiceState")
        said = []
        for number, state in fields(answer[1]):
            for kind, value in fields(state):
                if kind != 2:
                    continue
                descriptor = dict(fields(value))[1]
                source = dict(fields(descriptor))[1].decode()
                if source not in self.producer.SOURCES:
                    said.append("%s %d" % (source, len(descriptor)))
        self.say("%s sources: %s; %s" % (name, ", ".join(said),
                 "a frame is too large" if consumer.largest > FRAME_MAX else "all frames have room"))

    def step(self, text):
        match = re.match(r"([a-z!]+(?: fd)?): ?(.*)", text)
        if match:
            self.enable(match.group(1), match.group(2))
        else:
            name, verb, arg = (text.split(None, 2) + ["", ""])[:3]
            if name == "p":
                self.producer_step(verb, arg)
            else:
                self.consumer_step(name, verb, arg)
        self.settle()

    def finish(self):
        """The sessions, then the connections; returns when the service forgot all of them."""
        watcher = Consumer(self.consumer_path)
        self.say_sessions(watcher)
        for one in list(self.consumers.values()) + self.others + [self.producer]:
            one.close()
        end = time.monotonic() + 60
        while watcher.state() and time.monotonic() < end:
            if os.geteuid() == 0:
                self.end_detached(OTHER_UID)
            self.end_detached(None)
        watcher.close()
        self.dir.cleanup()


    def end_detached(self, uid):
        heir = Consumer(self.consumer_path, uid)
        heir.call("Attach", field(1, "k"))
        heir.close()


def events_in(data):
    """ObservableEvents in words; those of one kind may come in any order."""
    out = []
    for number, value in fields(dict(fields(data)).get(1, b"")):
        if number == 1:
            change = dict(fields(value))
            out.append("sees %s of %s %s" % (change[2].decode(), change[1].decode(),
                                             {1: "stopped", 2: "started"}[change[3]]))
        elif number == 2:
            out.append("sees that all have started")
        elif number == 3:
            hit = dict(fields(value))
            out.append("sees trigger %s of %s" % (hit[2].decode(), hit[3].decode()))
    return sorted(out)


def kind_of(packet):
    """The packet's own field, with the number of a service event."""
    for number, value in fields(packet):
        if number in (3, 8, 10, 42, 58, 79, 87, 98):
            continue
        if number == 69:
            return "69/" + ",".join(str(n) for n, _ in fields(value))
        return str(number)
    return "empty"


def run(scenario, consumer_path, producer_path):
    it = Run(consumer_path, producer_path)
    try:
        for step in scenario[2]:
            it.step(step)
    finally:
        it.finish()
    return it.lines


def plain(lines):
    return [re.sub(r"(refused|ended): .*", r"\1: ...", line) for line in lines]


def complaints(options, name, lines, recorded):
    if recorded is None:
        return ["nothing is recorded"]
    out = []
    in_order = sorted if "any-order" in options else list
    if in_order(plain(lines)) != in_order(plain(recorded)):
        out += ["expected: " + line for line in recorded] + ["got:      " + line for line in lines]
    if name == "perfleetd" and options.get("field"):
        said = [line for line in lines if "refused: " in line]
        if not any(options["field"] in line for line in said):
            out.append("the refusal does not name %s: %s" % (options["field"], said))
    return out


def main(mode, table, recording, name, consumer_path, producer_path, only=None):
    recorded = {}
    if os.path.exists(recording):
        with open(recording, encoding="utf-8") as f:
            recorded = json.load(f)
    failed = 0
    scenarios = [s for s in read_table(table) if only is None or only in s[0]]
    for scenario in scenarios:
        title, options, _ = scenario
        if "root" in options and os.geteuid() != 0:
            print("ok - %s # SKIP needs root" % title)
            continue
        if "kills" in options and name == "perfetto":
            print("ok - %s # SKIP it ends Perfetto's service" % title)
            continue
        begin = time.monotonic()
        lines = run(scenario, consumer_path, producer_path)
        if time.monotonic() - begin > 1:
            print("# %.1f s:" % (time.monotonic() - begin), title)
        if mode == "record":
            if name == "perfetto" or "own" in options:
                recorded.setdefault(title, {})[name] = lines
            continue
        whose = "perfleetd" if name == "perfleetd" and "own" in options else "perfetto"
        wrong = complaints(options, name, lines, recorded.get(title, {}).get(whose))
        print("%sok - %s" % ("not " if wrong else "", title), flush=True)
        for line in wrong:
            print("#   " + line)
        failed += bool(wrong)
    if mode == "record":
        titles = {s[0] for s in read_table(table)}
        recorded = {title: value for title, value in recorded.items() if title in titles}
        with open(recording, "w", encoding="utf-8") as f:
            json.dump(recorded, f, indent=1, sort_keys=True, ensure_ascii=True)
            f.write("\n")
    print("1..%d" % len(scenarios))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
