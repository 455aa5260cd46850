# SPDX-License-Identifier: Apache-2.0
"""A TraceConfig in text format to bytes, for tests: by a table of its own, so that a mistake in the
project's reading of configs is not repeated here. Fields by name, or by number for unknown ones."""
import re
import struct

INT, TEXT, DOUBLE = "int", "text", "double"

DATA_SOURCE_CONFIG = {
    "protovm_config": (12, {"memory_limit_kb": (1, INT)}),
    "name": (1, TEXT), "target_buffer": (2, INT), "trace_duration_ms": (3, INT),
    "stop_timeout_ms": (7, INT), "target_buffer_name": (11, TEXT),
    "legacy_config": (1000, TEXT),
    "for_testing": (1001, {"message_count": (2, INT), "seed": (1, INT), "message_size": (4, INT)}),
}
RULE = {"policy": (1, INT), "regex_pattern": (2, TEXT), "atrace_payload_starts_with": (3, TEXT),
        "name": (4, TEXT), "semantic_type": (5, INT)}
TRACE_CONFIG = {
    "buffers": (1, {"size_kb": (1, INT), "fill_policy": (4, INT), "transfer_on_clone": (5, INT),
                    "clear_before_clone": (6, INT), "name": (7, TEXT),
                    "experimental_mode": (8, INT)}),
    "data_sources": (2, {"config": (1, DATA_SOURCE_CONFIG), "producer_name_filter": (2, TEXT),
                         "producer_name_regex_filter": (3, TEXT),
                         "machine_name_filter": (4, TEXT)}),
    "duration_ms": (3, INT), "enable_extra_guardrails": (4, INT), "lockdown_mode": (5, INT),
    "producers": (6, {"producer_name": (1, TEXT), "shm_size_kb": (2, INT), "page_size_kb": (3, INT)}),
    "statsd_metadata": (7, {"triggering_alert_id": (1, INT), "triggering_config_uid": (2, INT)}),
    "write_into_file": (8, INT), "file_write_period_ms": (9, INT), "max_file_size_bytes": (10, INT),
    "guardrail_overrides": (11, {"max_tracing_buffer_size_kb": (2, INT)}),
    "deferred_start": (12, INT), "flush_period_ms": (13, INT), "flush_timeout_ms": (14, INT),
    "notify_traceur": (16, INT),
    "trigger_config": (17, {
        "trigger_mode": (1, INT), "trigger_timeout_ms": (3, INT),
        "use_clone_snapshot_if_available": (5, INT),
        "triggers": (2, {"name": (1, TEXT), "producer_name_regex": (2, TEXT),
                         "stop_delay_ms": (3, INT), "max_per_24_h": (4, INT),
                         "skip_probability": (5, DOUBLE)})}),
    "activate_triggers": (18, TEXT), "allow_user_build_tracing": (19, INT),
    "builtin_data_sources": (20, {
        "disable_clock_snapshotting": (1, INT), "disable_trace_config": (2, INT),
        "disable_system_info": (3, INT), "disable_service_events": (4, INT),
        "primary_trace_clock": (5, INT), "snapshot_interval_ms": (6, INT),
        "prefer_suspend_clock_for_snapshot": (7, INT), "disable_chunk_usage_histograms": (8, INT),
        "disable_extension_descriptors": (9, INT), "enable_concurrent_session_events": (10, INT)}),
    "incremental_state_config": (21, {"clear_period_ms": (1, INT)}),
    "unique_session_name": (22, TEXT), "data_source_stop_timeout_ms": (23, INT),
    "compression_type": (24, INT), "trace_uuid_msb": (27, INT), "trace_uuid_lsb": (28, INT),
    "output_path": (29, TEXT), "bugreport_score": (30, INT), "statsd_logging": (31, INT),
    "trace_filter": (33, {"bytecode": (1, TEXT), "bytecode_v2": (2, TEXT),
                          "string_filter_chain": (3, {"rules": (1, RULE)}),
                          "bytecode_overlay_v54": (4, TEXT),
                          "string_filter_chain_v54": (5, {"rules": (1, RULE)})}),
    "cmd_trace_start_delay": (35, {"min_delay_ms": (1, INT), "max_delay_ms": (2, INT)}),
    "prefer_suspend_clock_for_duration": (36, INT), "bugreport_filename": (38, TEXT),
    "session_semaphores": (39, {"name": (1, TEXT), "max_other_session_count": (2, INT)}),
    "priority_boost": (40, {"policy": (1, INT), "priority": (2, INT)}),
    "exclusive_prio": (41, INT), "trace_all_machines": (43, INT), "write_flush_mode": (44, INT),
    "fflush_post_write": (45, INT),
    "compression": (47, {"deflate": (1, {}), "zstd": (2, {"level": (1, INT)})}),
    "trace_attributes": (48, {"attribute": (1, {"key": (1, TEXT), "string_value": (3, TEXT)})}),
}
WORDS = {
    "true": 1, "false": 0, "RING_BUFFER": 1, "DISCARD": 2, "TRACE_BUFFER_V2": 1,
    "LOCKDOWN_CLEAR": 1, "LOCKDOWN_SET": 2, "START_TRACING": 1, "STOP_TRACING": 2,
    "CLONE_SNAPSHOT": 4, "COMPRESSION_TYPE_DEFLATE": 1, "WRITE_FLUSH_AUTO": 1,
    "WRITE_FLUSH_DISABLED": 2, "WRITE_FLUSH_ENABLED": 3, "FFLUSH_DISABLED": 1, "FFLUSH_ENABLED": 2,
    "STATSD_LOGGING_ENABLED": 1, "STATSD_LOGGING_DISABLED": 2, "POLICY_SCHED_OTHER": 1,
    "POLICY_SCHED_FIFO": 2, "SFP_MATCH_REDACT_GROUPS": 1,
}
TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\]|\\.)*"|[A-Za-z0-9_.+-]+|[{}:])')


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def unquote(token):
    def char(match):
        what = match.group(1)
        return chr(int(what, 8)) if what[0].isdigit() else {"n": "\n"}.get(what, what)
    return re.sub(r"\\([0-7]{1,3}|.)", char, token[1:-1]).encode("latin-1")


class Parser:
    def __init__(self, text):
        self.tokens = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise ValueError("cannot read " + repr(text[at:at + 30]))
            self.tokens.append(match.group(1))
            at = match.end()
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def message(self, schema):
        out = b""
        while self.peek() not in (None, "}"):
            out += self.field(self.take(), schema)
        return out

    def field(self, name, schema):
        number, kind = (int(name), INT) if name.isdigit() else schema[name]
        if self.peek() == ":":
            self.take()
        token = self.take()
        if token == "{":
            body = self.message(kind if isinstance(kind, dict) else {})
            if self.take() != "}":
                raise ValueError("missing }")
        elif token[0] == '"':
            body = unquote(token)
        elif kind == DOUBLE:
            return varint(number << 3 | 1) + struct.pack("<d", float(token))
        else:
            return varint(number << 3) + varint(WORDS[token] if token in WORDS else int(token))
        return varint(number << 3 | 2) + varint(len(body)) + body


def encode(text):
    parser = Parser(text)
    out = parser.message(TRACE_CONFIG)
    if parser.peek() is not None:
        raise ValueError("unexpected " + parser.peek())
    return out
