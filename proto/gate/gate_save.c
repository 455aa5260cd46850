/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate's state as bytes, for the next process of an agent: see gate.h.
 *
 *     u32 FORMAT
 *     u16 length, role
 *     u8 count, each: method, u32 length, arguments     what was let through and may run
 *     u8 length (0 to 4), what came of a frame's prefix; of all 4:
 *         u32 bytes to come of it, u8 is_taking; if so, those that came
 *     u32 length, answers of ours that wait
 *     u8 binds, u32 service, u8 count, each: u32 number, method
 *
 * Integers are little-endian; a method is a u8 length and its name, because numbers differ between
 * builds. Happy path: each state has one encoding; restore and save yield the same bytes. Failures:
 * bytes that no gate can have saved are PFL_EPARSE. Ownership: nothing is kept of the bytes.
 * Limits: PFL_GATE_SAVED_MAX_BYTES, and those of the gate.
 */
#include <assert.h>

#include "proto/gate/gate_impl.h"

#define FORMAT 0x31746167u /* "gat1" */

#define METHOD_BYTES (1 + PFL_METHOD_NAME_MAX)
_Static_assert(4 + 2 + PFL_ROLE_MAX_BYTES + 1 +
                       PFL_GATE_HELD_MAX * (METHOD_BYTES + 4 + PFL_FRAME_PAYLOAD_MAX) + 1 +
                       PFL_FRAME_PREFIX_BYTES + 4 + 1 + PFL_GATE_BIND_ANSWER_BYTES + 4 +
                       PFL_GATE_WAITING_MAX_BYTES + 1 + 4 + 1 +
                       PFL_GATE_METHODS_MAX * (4 + METHOD_BYTES) <=
                   PFL_GATE_SAVED_MAX_BYTES,
               "a gate may be larger than it says");

/* ---- save ---- */

static void write_method(struct pfl_writer *w, enum pfl_method method)
{
    const char *name = pfl_method_name(method);
    size_t len = strlen(name);

    assert(len <= PFL_METHOD_NAME_MAX);
    pfl_writer_u8(w, (uint8_t)len);
    pfl_writer_bytes(w, name, len);
}

static void write_role(struct pfl_writer *w, const struct pfl_gate *g)
{
    struct pfl_span role = pfl_buf_get(&g->role);

    pfl_writer_u32(w, FORMAT);
    pfl_writer_u16(w, (uint16_t)role.len);
    pfl_writer_bytes(w, role.data, role.len);
}

static void write_held(struct pfl_writer *w, const struct pfl_gate *g)
{
    pfl_writer_u8(w, (uint8_t)g->held_len);
    for (unsigned i = 0; i < g->held_len; i++) {
        struct pfl_span args = pfl_buf_get(&g->held[i].args);

        write_method(w, g->held[i].method);
        pfl_writer_u32(w, (uint32_t)args.len);
        pfl_writer_bytes(w, args.data, args.len);
    }
}

static void write_place(struct pfl_writer *w, const struct pfl_gate *g)
{
    struct pfl_span taken = pfl_buf_get(&g->bind_answer);

    pfl_writer_u8(w, (uint8_t)g->prefix_len);
    pfl_writer_bytes(w, g->prefix, g->prefix_len);
    if (g->prefix_len != PFL_FRAME_PREFIX_BYTES)
        return;
    pfl_writer_u32(w, g->frame_left);
    pfl_writer_u8(w, g->is_taking);
    pfl_writer_bytes(w, taken.data, taken.len);
}

static void write_methods(struct pfl_writer *w, const struct pfl_gate *g)
{
    pfl_writer_u8(w, (uint8_t)g->binds);
    pfl_writer_u32(w, g->service_id);
    pfl_writer_u8(w, (uint8_t)g->methods_len);
    for (unsigned i = 0; i < g->methods_len; i++) {
        pfl_writer_u32(w, g->method_ids[i]);
        write_method(w, g->methods[i]);
    }
}

/* What write_role and write_held write is there. */
static void skip_version(struct pfl_writer *w, const struct pfl_gate *g)
{
    size_t len = 4 + 2 + g->role.len + 1;

    for (unsigned i = 0; i < g->held_len; i++)
        len += 1 + strlen(pfl_method_name(g->held[i].method)) + 4 + g->held[i].args.len;
    w->failed |= len > w->left;
    if (w->failed)
        return;
    w->pos += len;
    w->left -= len;
}

static int save(const struct pfl_gate *g, bool is_again, struct pfl_writer *out)
{
    struct pfl_span waiting = pfl_buf_get(&g->waiting);
    struct pfl_writer w = *out;

    assert(g->operator_frames.partial.len == 0);
    if (is_again) {
        skip_version(&w, g);
    } else {
        write_role(&w, g);
        write_held(&w, g);
    }
    write_place(&w, g);
    pfl_writer_u32(&w, (uint32_t)waiting.len);
    pfl_writer_bytes(&w, waiting.data, waiting.len);
    write_methods(&w, g);
    if (w.failed)
        return PFL_ELIMIT;
    *out = w;
    return 0;
}

int pfl_gate_save(const struct pfl_gate *self, struct pfl_writer *out)
{
    return save(self, false, out);
}

int pfl_gate_save_again(const struct pfl_gate *self, struct pfl_writer *out)
{
    return save(self, true, out);
}

uint64_t pfl_gate_get_version(const struct pfl_gate *self)
{
    return self->version;
}

/* ---- restore ---- */

static enum pfl_method read_method(struct pfl_reader *r)
{
    return pfl_method_find(pfl_reader_bytes(r, pfl_reader_u8(r)));
}

static int read_bytes(struct pfl_reader *r, size_t len_untrusted, struct pfl_buf *out)
{
    struct pfl_span bytes = pfl_reader_bytes(r, len_untrusted);
    int rc = r->failed ? PFL_EPARSE : pfl_buf_append(out, bytes.data, bytes.len);

    return rc == PFL_ELIMIT ? PFL_EPARSE : rc;
}

static int read_held(struct pfl_reader *r, struct pfl_gate *g)
{
    unsigned len_untrusted = pfl_reader_u8(r);
    int rc = len_untrusted <= PFL_GATE_HELD_MAX ? 0 : PFL_EPARSE;

    while (rc == 0 && g->held_len < len_untrusted) {
        struct pfl_gate_held *h = &g->held[g->held_len];

        h->method = read_method(r);
        if (!pfl_gate_is_to_be_held(h->method))
            return PFL_EPARSE;
        pfl_buf_init(&h->args, PFL_FRAME_PAYLOAD_MAX);
        g->held_len++;
        rc = read_bytes(r, pfl_reader_u32(r), &h->args);
    }
    return rc;
}

/* Reads a frame whose length is known. */
static int read_frame(struct pfl_reader *r, struct pfl_gate *g)
{
    struct pfl_reader prefix = pfl_reader_of(pfl_span_of(g->prefix, sizeof(g->prefix)));
    uint32_t len = pfl_reader_u32(&prefix);
    uint8_t is_taking = pfl_reader_u8(r);

    if (g->frame_left == 0 || g->frame_left > len || is_taking > 1)
        return PFL_EPARSE;
    g->is_taking = is_taking;
    if (!g->is_taking)
        return 0;
    if (len > PFL_GATE_BIND_ANSWER_BYTES)
        return PFL_EPARSE;
    return read_bytes(r, len - g->frame_left, &g->bind_answer);
}

static int read_place(struct pfl_reader *r, struct pfl_gate *g)
{
    unsigned len_untrusted = pfl_reader_u8(r);
    struct pfl_span prefix;

    if (len_untrusted > PFL_FRAME_PREFIX_BYTES)
        return PFL_EPARSE;
    prefix = pfl_reader_bytes(r, len_untrusted);
    if (prefix.len != 0)
        memcpy(g->prefix, prefix.data, prefix.len);
    g->prefix_len = (unsigned)prefix.len;
    if (g->prefix_len != PFL_FRAME_PREFIX_BYTES)
        return 0;
    g->frame_left = pfl_reader_u32(r);
    return read_frame(r, g);
}

/* Whole frames, and only while one of the service's frames is incomplete. */
static bool are_answers(const struct pfl_gate *g)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&g->waiting));

    while (!r.failed && r.left != 0)
        (void)pfl_reader_bytes(&r, pfl_reader_u32(&r));
    return !r.failed && (g->waiting.len == 0 || g->prefix_len != 0);
}

static int read_methods(struct pfl_reader *r, struct pfl_gate *g)
{
    unsigned len_untrusted;

    g->binds = pfl_reader_u8(r);
    g->service_id = pfl_reader_u32(r);
    len_untrusted = pfl_reader_u8(r);
    if (g->binds > PFL_GATE_BINDS_MAX || (g->is_taking && g->binds == 0) ||
        len_untrusted > PFL_GATE_METHODS_MAX)
        return PFL_EPARSE;
    while (g->methods_len < len_untrusted) {
        g->method_ids[g->methods_len] = pfl_reader_u32(r);
        g->methods[g->methods_len] = read_method(r);
        if (g->methods[g->methods_len++] == PFL_METHOD_UNKNOWN)
            return PFL_EPARSE;
    }
    return 0;
}

static int read_gate(struct pfl_reader *r, struct pfl_gate *g)
{
    int rc = read_held(r, g);

    if (rc == 0)
        rc = read_place(r, g);
    if (rc == 0)
        rc = read_bytes(r, pfl_reader_u32(r), &g->waiting);
    if (rc == 0 && !are_answers(g))
        rc = PFL_EPARSE;
    if (rc == 0)
        rc = read_methods(r, g);
    return rc == 0 && (r->failed || r->left != 0) ? PFL_EPARSE : rc;
}

int pfl_gate_restore(const struct pfl_gate_conf *conf, struct pfl_span saved_untrusted,
                     struct pfl_gate **ret_gate)
{
    struct pfl_reader r = pfl_reader_of(saved_untrusted);
    bool is_ours = pfl_reader_u32(&r) == FORMAT;
    struct pfl_gate_conf with_role = *conf;
    struct pfl_gate *g;
    int rc;

    with_role.role = pfl_reader_bytes(&r, pfl_reader_u16(&r));
    if (r.failed || !is_ours || with_role.role.len > PFL_ROLE_MAX_BYTES ||
        pfl_role_check(with_role.role, false) != NULL)
        return PFL_EPARSE;
    rc = pfl_gate_new(&with_role, &g);
    if (rc != 0)
        return rc;
    rc = read_gate(&r, g);
    if (rc != 0) {
        pfl_gate_free(g);
        return rc;
    }
    *ret_gate = g;
    return 0;
}
