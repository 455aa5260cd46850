/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate is said to have saved: it is refused, or a gate that saves just these bytes, passes
 * all that the service says, lets nothing of the operator's through that a role forbids which is
 * set then, and ends. Layout: length of the saved bytes (2 bytes), those, a piece's size, what the
 * service says, and what the operator says after it: the same bytes.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "proto/gate/gate.h"
#include "tests/support/fuzz_note.h"

#define ROOM (1u << 22)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_buf to_both[2];
static bool is_forbidden;

static int to_service(void *user, struct pfl_span bytes)
{
    (void)user;
    note_bytes("to the service", bytes);
    return pfl_buf_append(&to_both[0], bytes.data, bytes.len);
}

static int to_operator(void *user, struct pfl_span bytes)
{
    (void)user;
    note_bytes("to the operator", bytes);
    return pfl_buf_append(&to_both[1], bytes.data, bytes.len);
}

static void on_judged(void *user, enum pfl_method method, const char *why)
{
    (void)user;
    note("method %d: %s", method, why != NULL ? why : "allowed");
    if (is_forbidden && why == NULL)
        abort();
}

static void assert_saves(const struct pfl_gate *gate, struct pfl_span saved)
{
    static uint8_t room[PFL_GATE_SAVED_MAX_BYTES];
    struct pfl_writer out = pfl_writer_of(room, sizeof(room));

    if (pfl_gate_save(gate, &out) != 0 || sizeof(room) - out.left != saved.len ||
        memcmp(room, saved.data, saved.len) != 0)
        abort();
}

static int feed(struct pfl_gate *gate, bool is_service, struct pfl_span bytes, size_t piece)
{
    int rc = 0;

    while (rc == 0 && bytes.len != 0) {
        size_t len = piece < bytes.len ? piece : bytes.len;
        struct pfl_span part = pfl_span_of(bytes.data, len);

        rc = is_service ? pfl_gate_from_service(gate, part) : pfl_gate_from_operator(gate, part);
        bytes = pfl_span_of(bytes.data + len, bytes.len - len);
    }
    return rc;
}

static void use(struct pfl_gate *gate, struct pfl_span rest)
{
    static const uint8_t role[] = {0x0a, 1, 'r', 0x12, 1, 'x'}; /* no method is called so */
    struct pfl_span bytes = pfl_span_of(rest.data + 1, rest.len - 1);
    char why[PFL_JUDGE_WHY_BYTES];
    int rc = feed(gate, true, bytes, rest.data[0] + 1u);

    if (rc == 0 && to_both[1].len < bytes.len)
        abort();
    (void)!feed(gate, false, bytes, rest.data[0] + 1u);
    is_forbidden = pfl_gate_set_role(gate, pfl_span_of(role, sizeof(role)), why) == 0;
    if (is_forbidden)
        (void)!feed(gate, false, bytes, rest.data[0] + 1u);
    is_forbidden = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_gate_conf conf = {
        .to_service = to_service, .to_operator = to_operator, .on_judged = on_judged};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct pfl_span saved = pfl_reader_bytes(&r, pfl_reader_u16(&r));
    struct pfl_mem_stats before;
    struct pfl_mem_stats after;
    struct pfl_gate *gate;
    int rc;

    if (r.failed)
        return 0;
    pfl_mem_stats_get(&before);
    pfl_buf_init(&to_both[0], ROOM);
    pfl_buf_init(&to_both[1], ROOM);
    rc = pfl_gate_restore(&conf, saved, &gate);
    note("restored: %s", pfl_err_str(rc));
    if (rc == 0) {
        assert_saves(gate, saved);
        if (r.left != 0)
            use(gate, pfl_span_of(r.pos, r.left));
        pfl_gate_free(gate);
    }
    pfl_buf_fini(&to_both[0]);
    pfl_buf_fini(&to_both[1]);
    pfl_mem_stats_get(&after);
    if (before.live_blocks != after.live_blocks)
        abort();
    return 0;
}
