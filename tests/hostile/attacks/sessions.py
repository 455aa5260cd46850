# SPDX-License-Identifier: Apache-2.0
"""What sessions and triggers of one user do to others."""
import ctypes
import os
import socket
import struct
import time

from world import GROUP, SEATS, SERVICE_USER, Consumer, Failed, Producer, World, field

ATTACKS = ["raised_triggers", "exclusive_session", "lockdown", "privileged_group", "output_path",
           "output_path_fifo", "output_path_hangs"]


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
        if failed or not world.is_alive() or worst > 1.0:
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
        if failed or worst > 1.0:
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def serve_nothing(ready, target):
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
            _, opcode, unique, node = struct.unpack_from("<IIQQ", os.read(fd, 1 << 20))
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
    with World(build) as world:
        hanging = str(world.dir / "hanging")
        os.mkdir(hanging)
        server = world.attack(None, serve_nothing, hanging)
        said = server.wait_ready()
        if said != "ready":
            if said.startswith("SKIP"):
                return said
            raise Failed(said)
        try:
            victim = world.victim()
            named = field(1, field(1, 64)) + file_config(hanging + "/file")
            attackers = [Consumer(world.consumer, SERVICE_USER) for _ in range(10)]
            for attacker in attackers:
                attacker.invoke("EnableTracing", field(1, named), lambda *_: None)
            time.sleep(3)
            worst, failed = victim.worst_s(), victim.failed
            victim.is_ending = True
            if failed or not world.is_alive() or worst > 1.0:
                raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
            return "the victim waited %.3f s at most" % worst
        finally:
            server.end()
            world.children.remove(server)
            ctypes.CDLL(None).umount2(hanging.encode(), 2)  # MNT_DETACH
