/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: see role.h.
 *
 * Happy path: each query walks the message; it has tens of fields, and queries are few. Failures:
 * an invalid role is reported as text and never partly used. Ownership: none. Limits:
 * PFL_ROLE_MAX_BYTES, PFL_ROLE_PATTERN_MAX.
 */
#include "proto/gate/role.h"

#include <stdio.h>

#include "perfleet/policy.fields.h"

#define MAX_BYTES_PER_S (1ull << 50)

bool pfl_pattern_matches(struct pfl_span pattern, struct pfl_span name)
{
    size_t at = 0;
    size_t star = SIZE_MAX;
    size_t from = 0;

    /* Linear in practice: only the last star is ever tried again. */
    for (size_t i = 0; i < name.len;) {
        if (at < pattern.len && pattern.data[at] == '*') {
            star = at++;
            from = i;
        } else if (at < pattern.len && pattern.data[at] == name.data[i]) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++from;
        } else {
            return false;
        }
    }
    while (at < pattern.len && pattern.data[at] == '*')
        at++;
    return at == pattern.len;
}

bool pfl_pattern_is_one(struct pfl_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c < 0x21 || c > 0x7e || c == '"' || c == '\\' || c == '\'')
            return false;
    }
    return text.len >= 1 && text.len <= PFL_ROLE_PATTERN_MAX;
}

static bool is_text(uint32_t id)
{
    return (id >= ROLE__NAME && id <= ROLE__SESSION) || id == ROLE__TRIGGER;
}

static const char *check_field(const struct pfl_field *f, bool is_relays, unsigned *seen)
{
    bool is_own = f->id >= ROLE__MAX_BYTES_PER_S && f->id <= PFL_ROLE_LAST_OF_RELAY;
    unsigned bit = is_own ? 1u << (f->id - ROLE__MAX_BYTES_PER_S + 16) : 1u << (f->id & 15);

    if ((f->id > PFL_ROLE_LAST_OF_AGENT && !(is_own && is_relays)) ||
        f->type != (is_text(f->id) ? PFL_WIRE_BYTES : PFL_WIRE_VARINT))
        return "it has a field that this build does not know";
    if (is_text(f->id) && !pfl_pattern_is_one(f->bytes))
        return "names and patterns have 1 to 127 printable characters without blanks and quotes";
    if (!is_text(f->id) &&
        f->value > (f->id == ROLE__MAX_BYTES_PER_S ? MAX_BYTES_PER_S : UINT32_MAX))
        return "a number is too large";
    if ((f->id == ROLE__NAME || !is_text(f->id)) && (*seen & bit) != 0)
        return "a field is repeated that a role has once";
    *seen |= bit;
    return NULL;
}

const char *pfl_role_check(struct pfl_span role_untrusted, bool is_relays)
{
    struct pfl_reader r = pfl_reader_of(role_untrusted);
    struct pfl_field f;
    unsigned seen = 0;
    const char *why = NULL;

    while (why == NULL && pfl_reader_field(&r, &f))
        why = check_field(&f, is_relays, &seen);
    if (why == NULL && r.failed)
        why = "it is malformed";
    if (why == NULL && (seen & 1u << ROLE__NAME) == 0)
        why = "a role wants a name";
    return why;
}

int pfl_role_cut(struct pfl_span role, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(role);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id <= PFL_ROLE_LAST_OF_AGENT)
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    }
    return rc;
}

static bool find(struct pfl_span role, uint32_t field, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(role);

    while (pfl_reader_field(&r, ret_field)) {
        if (ret_field->id == (uint32_t)field)
            return true;
    }
    return false;
}

struct pfl_span pfl_role_get_name(struct pfl_span role)
{
    struct pfl_field f;

    return find(role, ROLE__NAME, &f) ? f.bytes : pfl_span_of(NULL, 0);
}

void pfl_role_copy_name(struct pfl_span role, char ret_name[PFL_ROLE_PATTERN_MAX + 1])
{
    struct pfl_span name = pfl_role_get_name(role);

    (void)snprintf(ret_name, PFL_ROLE_PATTERN_MAX + 1, "%.*s", (int)name.len,
                   (const char *)name.data);
}

uint64_t pfl_role_get_number(struct pfl_span role, uint32_t field)
{
    struct pfl_field f;

    return find(role, field, &f) ? f.value : 0;
}

bool pfl_role_has(struct pfl_span role, uint32_t field)
{
    struct pfl_field f;

    return find(role, field, &f);
}

bool pfl_role_matches(struct pfl_span role, uint32_t field, struct pfl_span name)
{
    struct pfl_reader r = pfl_reader_of(role);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == (uint32_t)field && pfl_pattern_matches(f.bytes, name))
            return true;
    }
    return false;
}

void pfl_role_list(struct pfl_span role, uint32_t field, char *dst, size_t room)
{
    struct pfl_reader r = pfl_reader_of(role);
    struct pfl_field f;
    size_t used = 0;

    (void)snprintf(dst, room, "none");
    while (pfl_reader_field(&r, &f)) {
        int len;

        if (f.id != (uint32_t)field)
            continue;
        len = snprintf(dst + used, room - used, "%s%.*s", used != 0 ? ", " : "", (int)f.bytes.len,
                       (const char *)f.bytes.data);
        if (len < 0 || (size_t)len >= room - used) {
            dst[used] = '\0';
            return;
        }
        used += (size_t)len;
    }
}

void pfl_role_write(struct pfl_span role, char ret_text[PFL_ROLE_FIELD_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    size_t i;

    for (i = 0; i < role.len && i < PFL_ROLE_MAX_BYTES; i++) {
        ret_text[2 * i] = digits[role.data[i] >> 4];
        ret_text[2 * i + 1] = digits[role.data[i] & 15];
    }
    ret_text[2 * i] = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int pfl_role_read(const char *text_untrusted, struct pfl_buf *out)
{
    size_t len = strlen(text_untrusted);
    uint8_t *room;
    int rc;

    if (len % 2 != 0 || len > 2 * PFL_ROLE_MAX_BYTES)
        return PFL_EPARSE;
    rc = pfl_buf_reserve(out, len / 2, &room);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < len / 2; i++) {
        int high = digit_of(text_untrusted[2 * i]);
        int low = digit_of(text_untrusted[2 * i + 1]);

        if (high < 0 || low < 0)
            return PFL_EPARSE;
        room[i] = (uint8_t)(high << 4 | low);
    }
    if (pfl_role_check(pfl_span_of(room, len / 2), false) != NULL)
        return PFL_EPARSE;
    pfl_buf_extend(out, len / 2);
    return 0;
}
