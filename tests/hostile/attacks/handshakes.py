# SPDX-License-Identifier: Apache-2.0
"""What a stranger on the network does to a relay's ports without a key of his own, and a peer with one."""
import time

from relay_world import RelayWorld, connect
from world import LIMIT_S, Failed, get_slowness

ATTACKS = ["replayed_hello_main", "replayed_hello_join", "replayed_hello_metrics", "a_thousand_addresses",
           "a_thousand_networks", "finished_all_the_time"]

# A ClientHello that was seen once, from one address 1,000 times a second and from fifty 100 times.
RATES = [("127.1.0.1", 1000)] + [("127.2.0.%d" % n, 100) for n in range(1, 51)]
# The same from a thousand addresses, once in 2 s each: of one network of 16 bits, and of 200.
OF_ONE = [("127.3.%d.%d" % (n // 200, n % 200 + 1), 0.5) for n in range(1000)]
OF_MANY = [("127.%d.0.%d" % (20 + n % 200, n // 200 + 1), 0.5) for n in range(1000)]
CROWD_S = 30  # the addresses come again and again by then
QUIET_S, FLOOD_S = 4, 8
ROUNDS = 3  # other work of the machine may spoil some
# The goals are 0.9 and 2 s, and what is measured is printed. A claim has to hold on a machine with other work, too: a
# relay that takes each handshake as it comes keeps 0.01 to 0.14, and who is new waits 10 s.
ENTER_LIMIT_S = 5.0
KEPT_RATE = 0.5
FINISHERS = 3
BURST_S, FINISH_S = 1.5, 2.0  # what one certificate may finish at once is used up by then
FINISH_SHARE = 0.2  # of a core: 5.7 % of its own and 5 % of the common budget, and what begins or ends within the time


def measure(world, listener, seconds, first):
    """The operator's figures, and how long it took the slowest of those who came to `listener`."""
    operator = world.operator()
    begin = time.monotonic()
    slowest_s = 0.0
    for n in range(first, first + 200):
        if time.monotonic() - begin > seconds:
            break
        slowest_s = max(slowest_s, world.enter(listener, "127.9.%d.%d" % (n // 100, n % 100 + 1)))
        time.sleep(0.2)
    return operator.end(), slowest_s


def tell(operator, slowest_s):
    return "%.0f answers a second, %.2f ms, p99 %.2f ms, longest %.0f ms; who is new %.2f s" % (
        operator["rate"], operator["median_ms"], operator["p99_ms"], operator["longest_ms"], slowest_s)


def play(world, listener, number):
    """What is wrong, and what was measured. Compared is with a flood that another one takes: that
    costs the machine as much."""
    elsewhere = world.flood(world.closer(), RATES)
    quiet, quiet_s = measure(world, listener, QUIET_S, number * 400)
    elsewhere.end()
    before_s = world.cpu_s()
    flood = world.flood(world.ports[listener], RATES)
    found, slowest_s = measure(world, listener, FLOOD_S, number * 400 + 200)
    sent = flood.end()
    note = "%s: %s; without: %s; the relay took %.2f s CPU; %s" % (
        listener, tell(found, slowest_s), tell(quiet, quiet_s), world.cpu_s() - before_s,
        ", ".join("%s %.0f" % item for item in sent.items()))
    if "handshake-refused" not in world.log("perfleet-relay"):
        raise Failed("the relay's log does not say that it refuses; " + note)
    return found["rate"] < KEPT_RATE * quiet["rate"] or slowest_s > ENTER_LIMIT_S * get_slowness(), note


def replay(build, listener):
    for number in range(ROUNDS):
        with RelayWorld(build) as world:
            is_hurt, note = play(world, listener, number)
            if not is_hurt and world.figures()["perfleet_handshakes_refused_total"] > 1000:
                return note
    raise Failed(note)


def replayed_hello_main(build):
    """a replayed ClientHello at the relay's port leaves the operators their rate, and who is new comes in"""
    return replay(build, "main")


def replayed_hello_join(build):
    """nor does one at the port where new hosts join, and new hosts come in"""
    return replay(build, "join")


def replayed_hello_metrics(build):
    """nor does one at the port of figures, and scrapers come in"""
    return replay(build, "metrics")


def come_in(world, addresses):
    """How long each waited; None: not within LIMIT_S."""
    waits = []
    for address in addresses:
        begin, waited_s = time.monotonic(), None
        while waited_s is None and time.monotonic() - begin < LIMIT_S:
            try:
                world.enter("main", address)
                waited_s = time.monotonic() - begin
            except OSError:
                time.sleep(0.1)
        waits.append(waited_s)
    return waits


def crowd(build, rates, near, is_enough):
    """Operators who were here before, and new ones from other networks and from the strangers' own."""
    with RelayWorld(build) as world:
        world.enter("main", "127.9.0.1")
        operator = world.operator()
        flood = world.flood(world.ports["main"], rates)
        time.sleep(CROWD_S)
        found = {"known": come_in(world, ["127.9.0.1"] * 3),
                 "of other networks": come_in(world, ["127.8.0.%d" % n for n in range(1, 4)]),
                 "of theirs": come_in(world, [near % n for n in range(3)])}
        sent = flood.end()
        note = "%s; %s; the operator: %s; %.0f hellos a second" % (
            len(rates), ", ".join("%s %s s" % (who, "/".join("-" if w is None else "%.2f" % w for w in waits))
                                  for who, waits in found.items()),
            tell(operator.end(), 0), sent["sent_per_s"])
        slowness = get_slowness()
        for who in is_enough:
            if any(waited_s is None or waited_s > ENTER_LIMIT_S * slowness for waited_s in found[who]):
                raise Failed(note)
        return note


def a_thousand_addresses(build):
    """a thousand addresses of one network that finish no handshake keep out nobody from another network"""
    return crowd(build, OF_ONE, "127.3.99.%d", ("known", "of other networks"))


def a_thousand_networks(build):
    """nor do as many of 200 networks keep out who was there within the hour"""
    return crowd(build, OF_MANY, "127.20.99.%d", ("known",))


def finish_all_the_time(is_over, port, context, source):
    """Connects, shows a certificate, and ends."""
    counts = {"finished": 0, "refused": 0}
    while not is_over():
        try:
            with connect(port, context, source, 0.5) as tls:
                tls.unwrap()
            counts["finished"] += 1
        except OSError:
            counts["refused"] += 1
    return counts


def finished_all_the_time(build):
    """a certificate whose holder connects all the time takes no more of the relay than a stranger does"""
    with RelayWorld(build) as world:
        operator, context = world.operator(), world.make_context("mallory")
        finishers = [world.begin(finish_all_the_time, world.ports["main"], context, "127.5.0.1")
                     for _ in range(FINISHERS)]
        time.sleep(BURST_S)
        begin, before = time.monotonic(), world.figures()
        time.sleep(FINISH_S)
        found = world.figures()
        took_s = time.monotonic() - begin
        waited_s = world.enter("main", "127.9.0.1")
        for finisher in reversed(finishers):
            finisher.end()
        share, *count = ((found[name] - before[name]) / took_s for name in (
            "perfleet_handshake_cpu_seconds_total", 'perfleet_relay_tls_handshakes_total{version="1.2"}',
            'perfleet_relay_tls_handshakes_total{version="1.3"}'))
        note = "%.0f handshakes a second, %.2f of a core; the operator: %s" % (sum(count), share, tell(operator.end(), waited_s))
        if share > FINISH_SHARE:
            raise Failed(note)
        return note
