# SPDX-License-Identifier: Apache-2.0
"""A producer that writes its shared memory by hand (docs/abi/smb.md), for tests: any state of the
chunk protocol can be made, and left. One writer, pages of one chunk."""
import mmap
import os
import select
import struct
import time

from service_peers import LIMIT_S, Client, Producer, field, fields, varint

PAGE = 4096
CHUNK_HEADER, PAYLOAD = 16, PAGE - 16  # from the page's begin; bytes of the one chunk
FREE, WRITING, READING, COMPLETE = range(4)
FROM_PREVIOUS, TO_NEXT, UNPATCHED = 1, 2, 4
DIV1 = 1 << 28


def packet(tag):
    return field(900, field(1, tag))


def fragments(*packets):
    return b"".join(varint(len(p)) + p for p in packets)


class SmbProducer(Producer):
    page_bytes = PAGE

    def __init__(self, path, source, does_scrape=True, notifies=(0, 0)):
        Client.__init__(self, path, "ProducerPort")
        self.received, self.owed, self.holds = [], [], set()
        self.instances = {}
        self.is_refused = False
        self.source = source
        self.memory = None
        self.buffer = None
        self.buffers = []  # of all sessions
        self.writer = 1
        self.chunk_id = 0
        self.page = 0
        self.does_scrape = does_scrape
        self.notifies = notifies
        self.SOURCES = {}  # nothing is acknowledged but by hand

    def initialize(self):
        self.call("InitializeConnection",
                  field(1, self.page_bytes) + field(2, 64 * self.page_bytes)
                  + field(3, "smb." + self.source) + field(4, 1 if self.does_scrape else 2))

    def listen(self):
        self.invoke("GetAsyncCommand", b"", self.on_command)

    def register_source(self):
        stop, start = self.notifies
        self.call("RegisterDataSource", field(1, field(1, self.source) + field(2, stop) + field(3, start)))

    def join(self):
        self.initialize()
        self.listen()
        self.register_source()
        return self

    def on_setup(self, setup):
        config = dict(fields(setup[2]))
        self.buffer = config.get(2, 0)
        self.buffers.append(self.buffer)
        self.instance = setup[1]
        self.instances[setup[1]] = config[1].decode()
        if self.memory is None:
            size = os.fstat(self.fds[0]).st_size
            self.memory = mmap.mmap(self.fds[0], size)
        self.received.append("setup " + config[1].decode())

    def start(self):
        """Until the data source runs and its writer is registered."""
        assert self.wait_for("start "), self.received
        self.call("RegisterTraceWriter", field(1, self.writer) + field(2, self.buffer))

    def begin_writer(self, writer, buffer):
        self.writer, self.buffer, self.chunk_id = writer, buffer, 0
        self.call("RegisterTraceWriter", field(1, writer) + field(2, buffer))

    # --- shared memory ---

    def set_state(self, page, state, layout=DIV1):
        struct.pack_into("<I", self.memory, page * self.page_bytes, layout | state)

    def state(self, page):
        return struct.unpack_from("<I", self.memory, page * self.page_bytes)[0] & 3

    def put(self, payload, count, flags=0, state=COMPLETE):
        """A chunk in the next page; returns the page."""
        page, self.page = self.page, (self.page + 1) % (len(self.memory) // self.page_bytes)
        end = time.monotonic() + LIMIT_S
        while struct.unpack_from("<I", self.memory, page * self.page_bytes)[0] != 0:
            assert time.monotonic() < end, "the service does not free page %d" % page
            select.select([], [], [], 0.001)
        self.set_state(page, WRITING)
        struct.pack_into("<IHH", self.memory, page * self.page_bytes + 8, self.chunk_id, self.writer,
                         count | flags << 10)
        begin = page * self.page_bytes + CHUNK_HEADER
        self.memory[begin:begin + len(payload)] = payload
        self.chunk_id += 1
        if state != WRITING:
            self.set_state(page, state)
        return page

    def move(self, page):
        return field(1, field(1, page) + field(2, 0) + field(3, self.buffer))

    def patch(self, chunk_id, offset, data, has_more=0):
        return field(2, field(1, self.buffer) + field(2, self.writer) + field(3, chunk_id) + field(
            4, field(1, offset) + field(2, data)) + (field(5, 1) if has_more else b""))

    def commit(self, body):
        answer = self.call("CommitData", body)
        assert answer is not None, "disconnected"

    def write(self, *tags):
        """Whole packets in a chunk of their own, committed."""
        packets = [packet(tag) for tag in tags]
        self.commit(self.move(self.put(fragments(*packets), len(packets))))
