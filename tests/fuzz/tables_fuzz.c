/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator's program prints of hosts, orders, traces and recordings. First byte: which
 * table. Hosts: options, width, height, then three states (u16 length, bytes). Orders and traces: a
 * CollectorReply. A recording: numbers. Progress: width, share, texts; lines: width, text. Nothing
 * but the colours is a control character; a screen keeps its height.
 */
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/report/host_table.h"
#include "consumer/report/order_table.h"
#include "consumer/report/paint.h"
#include "consumer/report/progress_line.h"
#include "consumer/report/summary.h"
#include "consumer/report/trace_table.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

#define OUT_MAX   (1u << 20)
#define HOSTS     3u
#define TEXT_MAX  64u
#define CERT_ENDS 1800000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum table {
    TABLE_HOSTS,
    TABLE_ORDERS,
    TABLE_TRACES,
    TABLE_RECORDING,
    TABLE_PROGRESS,
    TABLE_LINES,
    TABLES,
};

static void show(const char *what, int rc, struct pfl_buf *out)
{
    struct pfl_span text = pfl_buf_get(out);

    note("%s: %d", what, rc);
    note_text(what, text);
    for (size_t i = 0; rc == 0 && i < text.len; i++)
        if (text.data[i] < ' ' && text.data[i] != '\n' && text.data[i] != '\033')
            abort();
    pfl_buf_clear(out);
}

static void show_hosts(struct pfl_reader *r, struct pfl_buf *out)
{
    static const char *const columns[] = {NULL, "name,state", "host,nothing", "certificate,name"};
    static const char *const names[HOSTS] = {"web-1", "db", "a-host-with-a-long-name"};
    const struct pfl_inventory_host facts = {.name = "web-1",
                                             .address = "10.0.0.7:1",
                                             .version = "0.1",
                                             .tls = "1.3",
                                             .last_seen_s = 61.5,
                                             .is_connected = true,
                                             .has_clock = true,
                                             .offset_ns = -5120,
                                             .error_ns = 41000,
                                             .certificate_end_s = CERT_ENDS};
    unsigned options = pfl_reader_u8(r);
    struct pfl_service_state_host hosts[HOSTS];
    struct pfl_host_table_conf conf = {.hosts = hosts, .hosts_len = HOSTS};
    char why[512] = "";

    conf.columns = columns[options % 4];
    conf.is_problems = (options & 4) != 0;
    conf.is_color = (options & 8) != 0;
    conf.now_s = CERT_ENDS - 86400 * (int64_t)(options >> 4);
    conf.width = pfl_reader_u8(r);
    conf.height = pfl_reader_u8(r);
    for (size_t i = 0; i < HOSTS; i++) {
        size_t len = pfl_reader_u16(r);

        hosts[i] = (struct pfl_service_state_host){.name = names[i], .address = "unix:/x"};
        hosts[i].why = len == 0xffff ? "it does not answer" : "";
        hosts[i].relay_facts = i == 0 ? &facts : NULL;
        hosts[i].state = pfl_reader_bytes(r, len < r->left ? len : r->left);
    }
    if (conf.columns != NULL && pfl_host_table_check(conf.columns, why, sizeof(why)) != 0) {
        note("columns: %s", why);
        return;
    }
    show("hosts", pfl_host_table_text(&conf, out), out);
}

static Perfleet__CollectorReply *unpack(struct pfl_span bytes)
{
    ProtobufCMessage *message = NULL;

    if (pfl_proto_unpack(&perfleet__collector_reply__descriptor, bytes, &message) != 0)
        return NULL;
    return (Perfleet__CollectorReply *)message;
}

static void show_orders(struct pfl_span bytes, struct pfl_buf *out)
{
    Perfleet__CollectorReply *reply = unpack(bytes);

    for (int form = PFL_ORDER_TABLE_LIST; reply != NULL && form <= PFL_ORDER_TABLE_JSON; form++) {
        struct pfl_order_table table;
        int rc = 0;

        pfl_order_table_init(&table, (enum pfl_order_table_form)form, out);
        for (size_t i = 0; i < reply->n_order && rc == 0; i++)
            rc = pfl_order_table_add(&table, reply->order[i]);
        if (rc == 0)
            rc = pfl_order_table_end(&table);
        pfl_order_table_fini(&table);
        show("orders", rc, out);
    }
    if (reply != NULL)
        pfl_proto_free(&reply->base);
}

static void show_traces(struct pfl_span bytes, struct pfl_buf *out)
{
    static const unsigned widths[] = {0, 40, 80, 132};
    Perfleet__CollectorReply *reply = unpack(bytes);
    uint64_t holes = 0;

    for (size_t w = 0; reply != NULL && w < sizeof(widths) / sizeof(widths[0]); w++) {
        int rc = pfl_trace_table_head(widths[w], out);

        for (size_t i = 0; i < reply->n_trace && rc == 0; i++)
            rc = pfl_trace_table_line(reply->trace[i], widths[w], out);
        show("traces", rc, out);
    }
    for (size_t i = 0; reply != NULL && i < reply->n_trace; i++)
        show("trace", pfl_trace_table_json(reply->trace[i], out), out);
    for (size_t i = 0; reply != NULL && i < reply->n_missing; i++) {
        show("missing", pfl_trace_table_missing(reply->missing[i], false, out, &holes), out);
        show("missing", pfl_trace_table_missing(reply->missing[i], true, out, &holes), out);
    }
    note("%llu holes", (unsigned long long)holes);
    if (reply != NULL)
        pfl_proto_free(&reply->base);
}

static struct pfl_losses take_losses(struct pfl_reader *r)
{
    return (struct pfl_losses){.chunks_overwritten = pfl_reader_varint(r),
                               .chunks_discarded = pfl_reader_varint(r),
                               .patches_failed = pfl_reader_varint(r),
                               .abi_violations = pfl_reader_varint(r),
                               .writer_losses = pfl_reader_varint(r),
                               .invalid_packets = pfl_reader_varint(r),
                               .flushes_failed = pfl_reader_varint(r),
                               .service_chunks_discarded = pfl_reader_varint(r),
                               .service_patches_discarded = pfl_reader_varint(r),
                               .bytes_unread = pfl_reader_varint(r),
                               .buffer_bytes = pfl_reader_varint(r)};
}

static void take_host(struct pfl_reader *r, struct pfl_summary_host *ret_host)
{
    static const char *const whys[] = {"", "reading: it is gone", "refused", ""};
    unsigned flags = pfl_reader_u16(r);

    *ret_host = (struct pfl_summary_host){.name = "web-1",
                                          .address = "10.0.0.7:1",
                                          .why = whys[flags & 3],
                                          .failed_while = (flags & 4) != 0 ? "starting" : NULL,
                                          .trigger = (flags & 8) != 0 ? "boom" : NULL,
                                          .is_merged = (flags & 16) != 0,
                                          .is_reference = (flags & 32) != 0,
                                          .is_given_up = (flags & 64) != 0,
                                          .is_empty = (flags & 128) != 0,
                                          .has_losses = (flags & 256) != 0,
                                          .has_offset = (flags & 512) != 0,
                                          .fate = (enum pfl_session_fate)((flags >> 10) % 5)};
    ret_host->packets = pfl_reader_varint(r);
    ret_host->bytes = pfl_reader_varint(r);
    ret_host->sequences = (uint32_t)pfl_reader_varint(r);
    ret_host->resumes = pfl_reader_u8(r);
    ret_host->read_seconds = pfl_reader_u8(r) / 4.0;
    ret_host->loss_marks = pfl_reader_varint(r);
    ret_host->refused_packets = pfl_reader_varint(r);
    ret_host->unreadable.skipped = pfl_reader_varint(r);
    ret_host->unreadable.recovered = pfl_reader_varint(r);
    ret_host->lossy_processes.list[0].pid = pfl_reader_u8(r);
    ret_host->lossy_processes.list[0].marks = pfl_reader_u8(r);
    ret_host->lossy_processes.list[1].pid = pfl_reader_u8(r);
    ret_host->lossy_processes.list[1].marks = 5;
    ret_host->losses = take_losses(r);
    ret_host->offset_ns = (int64_t)(pfl_reader_varint(r) >> 1);
    ret_host->drift_ns = -(int64_t)(pfl_reader_varint(r) >> 1);
    ret_host->error_ns = (int64_t)(pfl_reader_varint(r) >> 1);
}

static void show_recording(struct pfl_reader *r, struct pfl_buf *out)
{
    static struct pfl_registered_sources sources;
    unsigned flags = pfl_reader_u16(r);
    struct pfl_summary_host *hosts = pfl_mem_calloc(HOSTS, sizeof(*hosts));
    struct pfl_summary s = {.hosts = hosts,
                            .hosts_len = flags % (HOSTS + 1),
                            .path = (flags & 4) != 0 ? NULL : "x.pftrace",
                            .session = (flags & 8) != 0 ? "ring" : NULL,
                            .is_ring = (flags & 16) != 0,
                            .partial = (flags & 32) != 0 ? "x.partial" : NULL,
                            .kept_session = "kept",
                            .why = (flags & 64) != 0 ? "the disk is full" : "",
                            .is_aborted = (flags & 128) != 0,
                            .has_file_failed = (flags & 256) != 0,
                            .is_disk_low = (flags & 512) != 0,
                            .has_no_source = (flags & 1024) != 0,
                            .has_skew = (flags & 2048) != 0};

    if (hosts == NULL)
        abort();
    sources = (struct pfl_registered_sources){.is_known = true};
    sources.producers[0].pid = 7;
    memcpy(sources.producers[0].name, "app", 4);
    s.file_bytes = pfl_reader_varint(r);
    s.files = pfl_reader_u8(r);
    s.removed_files = pfl_reader_u8(r);
    s.first_file = s.files != 0 ? "x.000001" : NULL;
    s.last_file = s.files != 0 ? "x.000009" : NULL;
    s.skew_ns = (int64_t)(pfl_reader_varint(r) >> 1);
    s.seconds = pfl_reader_u16(r) / 8.0;
    for (size_t i = 0; i < s.hosts_len; i++) {
        take_host(r, &hosts[i]);
        hosts[i].sources = i == 0 ? &sources : NULL;
        hosts[i].name = i == 0 ? "web-1" : i == 1 ? "db" : "";
    }
    note("exit %d", pfl_summary_exit(&s));
    for (size_t i = 0; i < s.hosts_len; i++)
        note("%llu losses", (unsigned long long)pfl_summary_losses(&s, &hosts[i]));
    show("text", pfl_summary_text(&s, out), out);
    show("json", pfl_summary_json(&s, out), out);
    pfl_mem_free(hosts);
}

static void take_text(struct pfl_reader *r, char ret_text[TEXT_MAX])
{
    size_t len = pfl_reader_u8(r) % TEXT_MAX;
    struct pfl_span bytes = pfl_reader_bytes(r, len < r->left ? len : r->left);

    memset(ret_text, 0, TEXT_MAX);
    for (size_t i = 0; i < bytes.len; i++)
        ret_text[i] = (char)(bytes.data[i] % 95 + ' ');
}

static void show_progress(struct pfl_reader *r)
{
    char line[PFL_PROGRESS_LINE_BYTES];
    unsigned columns = pfl_reader_u8(r);
    double share = pfl_reader_u8(r) / 100.0;
    char words[TEXT_MAX];
    char tail[TEXT_MAX];

    take_text(r, words);
    take_text(r, tail);
    for (unsigned i = 0; i < 6; i++) {
        pfl_progress_line(columns, words, i == 5 ? PFL_PROGRESS_NO_BAR : share, tail, line);
        note("%u: [%s]", columns, line);
        columns = columns * 2 % 200;
        share = share / 2;
    }
}

static void show_lines(struct pfl_reader *r, struct pfl_buf *out)
{
    unsigned width = pfl_reader_u8(r);
    struct pfl_span text = pfl_span_of(r->pos, r->left);

    note("painted: %d", pfl_paint_lines(text, out));
    note_text("painted", pfl_buf_get(out));
    pfl_buf_clear(out);
    note("cut: %d", pfl_paint_cut_lines(text, width, out));
    note_text("cut", pfl_buf_get(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    unsigned table = pfl_reader_u8(&r) % TABLES;
    struct pfl_buf out;

    (void)setenv("TZ", "UTC0", 1);
    tzset();
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    pfl_buf_init(&out, OUT_MAX);
    if (table == TABLE_HOSTS)
        show_hosts(&r, &out);
    else if (table == TABLE_ORDERS)
        show_orders(pfl_span_of(r.pos, r.left), &out);
    else if (table == TABLE_TRACES)
        show_traces(pfl_span_of(r.pos, r.left), &out);
    else if (table == TABLE_RECORDING)
        show_recording(&r, &out);
    else if (table == TABLE_PROGRESS)
        show_progress(&r);
    else
        show_lines(&r, &out);
    pfl_buf_fini(&out);
    return 0;
}
