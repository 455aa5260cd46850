# SPDX-License-Identifier: Apache-2.0
"""Traces with what was compressed in them taken apart, by zlib and libzstd: no code of perfleet's."""
import ctypes
import zlib

DEFLATE, ZSTD = 50, 133  # of TracePacket
NAMES = {DEFLATE: "deflate", ZSTD: "zstd"}


def inflate_zstd(frame):
    lib = ctypes.CDLL("libzstd.so.1")
    lib.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    size = lib.ZSTD_getFrameContentSize(frame, ctypes.c_size_t(len(frame)))
    if size > 1 << 30:
        raise ValueError("no zstd frame with a size")
    out = ctypes.create_string_buffer(max(size, 1))
    if lib.ZSTD_decompress(out, ctypes.c_size_t(size), frame, ctypes.c_size_t(len(frame))) != size:
        raise ValueError("a zstd frame that is broken")
    return out.raw[:size]


def varint(data, pos):
    value = shift = 0
    while True:
        value |= (data[pos] & 0x7F) << shift
        pos += 1
        if data[pos - 1] < 0x80:
            return value, pos
        shift += 7


def unpack(data):
    """(the trace with all packets plain, the names of the codecs that were there). A compressed packet
    is its only field. What is malformed stays as it is."""
    parts, codecs, begin, pos = [], set(), 0, 0
    try:
        while pos < len(data):
            at = pos
            tag, pos = varint(data, pos)
            size, body = varint(data, pos)
            pos = body + size
            if tag != 0x0A or size == 0:
                continue
            field, inside = varint(data, body)
            if field & 7 != 2 or field >> 3 not in NAMES:
                continue
            length, inside = varint(data, inside)
            packed = bytes(data[inside:inside + length])
            parts += [data[begin:at], zlib.decompress(packed) if field >> 3 == DEFLATE else inflate_zstd(packed)]
            codecs.add(NAMES[field >> 3])
            begin = pos
    except IndexError:
        pass
    return (data if not parts else b"".join([*parts, data[begin:]])), codecs
