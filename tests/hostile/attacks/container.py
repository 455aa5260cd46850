# SPDX-License-Identifier: Apache-2.0
"""A producer in a container: root of its own namespaces, with the producers' socket and nothing else."""
import os

from attacks.descriptors import observe, pass_as_memory
from world import Consumer, Failed, Producer, World, field

ATTACKS = ["root_inside", "sees_nothing", "linger_from_inside"]


def say_what_it_is(ready, path):
    is_refused = Producer(path, "inside", []).is_refused
    ready("uid=%d pid=%d %s" % (os.getuid(), os.getpid(), "refused" if is_refused else "taken"))


def root_inside(build):
    """root of a container is not root at the service, which locks him out like any user"""
    with World(build) as world:
        for more, expected in ((b"", "taken"), (field(5, 2), "refused")):
            root = Consumer(world.consumer)
            why = root.enable(field(1, field(1, 64)) + more)
            if why:
                raise Failed(why)
            said = world.attack("container", say_what_it_is, world.producer).wait_ready()
            if said.startswith("failed"):
                return "SKIP " + said
            if said != "uid=0 pid=1 " + expected:
                raise Failed("%s, not %s" % (said, expected))
            root.sock.close()
        return "taken while nobody locks, refused by lockdown_mode"


def look_around(ready, path, consumer, folder):
    found = [name for name in (consumer, folder, "/proc/1", "/etc/passwd", "/dev/shm") if os.path.exists(name)]
    ready(",".join(found) or "nothing but " + ",".join(os.listdir(os.path.dirname(path))))


def sees_nothing(build):
    """the seat is what it says: neither consumers' socket nor anything of the host is there"""
    with World(build) as world:
        said = world.attack("container", look_around, world.producer, world.consumer,
                            str(world.dir)).wait_ready()
        if said.startswith("failed"):
            return "SKIP " + said
        if said != "nothing but producer":
            raise Failed("there is " + said)


def linger_from_inside(build):
    """TCP sockets of a container's own network that linger hold nobody up"""
    try:
        return observe(build, "container", pass_as_memory, 12)
    except Failed as why:
        if "user namespaces" in str(why):
            return "SKIP " + str(why)
        raise
