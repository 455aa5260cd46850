/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host whose clock is measured, and which answers as it likes: records of `u8 which request, u8
 * flags, u16 len, body`; with the third flag the bytes are said without an answer around them.
 * Whatever it says, the measurement ends at most once and has a line that makes sense, or none.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "consumer/host/clock_probe.h"
#include "tests/fuzz/played_host.h"
#include "tests/support/fuzz_note.h"

#define FLAG_RAW 4u

/* In place of the consumer's: it leads to the played host. */
struct pfl_host_conn {
    struct played_host host;
    unsigned ends;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int pfl_host_conn_invoke(struct pfl_host_conn *self, const char *method, struct pfl_span args,
                         pfl_rpc_reply_cb cb, void *user)
{
    return pfl_rpc_client_invoke(self->host.client, method, args, -1, cb, user);
}

static void on_done(void *user, const struct pfl_clock_line *line)
{
    struct pfl_host_conn *conn = user;

    if (line == NULL)
        note("no line");
    else
        note("line: error %lld, %lld to %lld", (long long)line->error_ns, (long long)line->begin_ns,
             (long long)line->end_ns);
    if (++conn->ends != 1 ||
        (line != NULL && (line->error_ns < 0 || line->end_ns < line->begin_ns)))
        abort();
}

static void play(struct pfl_host_conn *conn, struct pfl_reader *r)
{
    while (r->left != 0) {
        uint8_t which = pfl_reader_u8(r);
        uint8_t flags = pfl_reader_u8(r);
        size_t len = pfl_reader_u16(r);
        struct pfl_span body = pfl_reader_bytes(r, len < r->left ? len : r->left);

        if (r->failed)
            return;
        if (flags & FLAG_RAW)
            played_host_say(&conn->host, body);
        else
            played_host_answer(&conn->host, which, flags, body);
        played_host_pump(&conn->host);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct pfl_host_conn *conn = pfl_mem_zalloc(sizeof(*conn));
    struct pfl_clock_probe *probe = pfl_mem_zalloc(sizeof(*probe));
    struct pfl_mem_stats stats;

    if (conn == NULL || probe == NULL)
        abort();
    played_host_init(&conn->host);
    if (pfl_clock_probe_start(probe, conn, on_done, conn) != 0)
        abort();
    played_host_pump(&conn->host);
    play(conn, &r);
    if (probe->is_running == (conn->ends != 0))
        abort();
    pfl_clock_probe_fini(probe);
    played_host_fini(&conn->host);
    pfl_mem_free(probe);
    pfl_mem_free(conn);
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
    return 0;
}
