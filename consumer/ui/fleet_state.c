/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: copies the producers and data sources of all hosts; their ids get the host's index as
 * a prefix, because every service counts its own. Failures: of a malformed state the part before
 * the error is used; a state that does not fit is made again with ids only. Limits: WORDS_MAX hosts
 * by name, WHY_BYTES of the reason.
 */
#include "consumer/ui/fleet_state.h"

#include <stdio.h>

#include "base/message.h"
#include "consumer/proxy/message_copy.h"
#include "perfetto/service_state.fields.h"

#define WORDS_MAX     8u
#define WHY_BYTES     160
#define PRODUCER_BITS 16u  /* a service's producer ids have so many */
#define TAIL_BYTES    512u /* id and machine of an entry, a host's name included */
#define BRIEF_BYTES   16u  /* of an entry that is its id */
#define REST_BYTES    4096u

/* What the entries leave room for. */
#define ENTRIES_MAX_BYTES (PFL_FLEET_STATE_MAX_BYTES - REST_BYTES)

static bool is_producer_id(const struct pfl_field *f)
{
    return f->id == TRACING_SERVICE_STATE__PRODUCER__ID ||
           f->id == TRACING_SERVICE_STATE__PRODUCER__MACHINE_NAME;
}

static bool is_source_producer_id(const struct pfl_field *f)
{
    return f->id == TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID;
}

static uint64_t find_number(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    uint64_t value = 0;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_VARINT)
            value = f.value;
    return value;
}

static size_t measure_kept(struct pfl_span message, pfl_message_copy_leave *leave)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    size_t len = 0;

    while (pfl_reader_field(&r, &f))
        len += leave(&f) ? 0 : f.raw.len;
    return len;
}

static uint64_t make_id(uint64_t number, size_t host)
{
    return (uint64_t)host << PRODUCER_BITS | (number & ((1u << PRODUCER_BITS) - 1));
}

/* One producer or data source, with its ids as `host`'s. */
static int append_entry(const struct pfl_field *entry, size_t host, const char *name,
                        struct pfl_buf *out)
{
    bool is_producer = entry->id == TRACING_SERVICE_STATE__PRODUCERS;
    pfl_message_copy_leave *leave = is_producer ? is_producer_id : is_source_producer_id;
    uint32_t id = is_producer ? TRACING_SERVICE_STATE__PRODUCER__ID
                              : TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID;
    uint8_t tail[TAIL_BYTES];
    struct pfl_writer w = pfl_writer_of(tail, sizeof(tail));
    struct pfl_reader r = pfl_reader_of(entry->bytes);
    struct pfl_field f;
    int rc;

    pfl_writer_field_varint(&w, id, make_id(find_number(entry->bytes, id), host));
    if (is_producer)
        pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__PRODUCER__MACHINE_NAME, name,
                               strlen(name));
    rc = pfl_message_append_header(out, entry->id,
                                   measure_kept(entry->bytes, leave) + sizeof(tail) - w.left);
    while (rc == 0 && pfl_reader_field(&r, &f))
        if (!leave(&f))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    return rc == 0 ? pfl_buf_append(out, tail, sizeof(tail) - w.left) : rc;
}

/* Only its existence, and its host. */
static int append_brief(const struct pfl_field *entry, size_t host, struct pfl_buf *out)
{
    uint32_t id = entry->id == TRACING_SERVICE_STATE__PRODUCERS
                      ? TRACING_SERVICE_STATE__PRODUCER__ID
                      : TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID;
    uint8_t bytes[BRIEF_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    uint64_t number = make_id(find_number(entry->bytes, id), host);

    pfl_writer_field_header(&w, entry->id, 1 + pfl_varint_size(number));
    pfl_writer_field_varint(&w, id, number);
    return pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
}

struct sums {
    uint64_t sessions;
    uint64_t started;
    size_t there;
    struct pfl_fleet_words missing;
};

/* PFL_ELIMIT: not all of them fit whole. */
static int append_host(const struct pfl_fleet_state_host *h, size_t host, bool is_brief,
                       struct sums *sums, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(h->state);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        bool is_entry = (f.id == TRACING_SERVICE_STATE__PRODUCERS ||
                         f.id == TRACING_SERVICE_STATE__DATA_SOURCES) &&
                        f.type == PFL_WIRE_BYTES;
        size_t len = is_brief ? BRIEF_BYTES : f.raw.len + TAIL_BYTES;
        bool has_room = out->len + len <= ENTRIES_MAX_BYTES;

        if (f.id == TRACING_SERVICE_STATE__NUM_SESSIONS && f.type == PFL_WIRE_VARINT)
            sums->sessions += f.value;
        else if (f.id == TRACING_SERVICE_STATE__NUM_SESSIONS_STARTED && f.type == PFL_WIRE_VARINT)
            sums->started += f.value;
        else if (is_entry && has_room && is_brief)
            rc = append_brief(&f, host, out);
        else if (is_entry && has_room)
            rc = append_entry(&f, host, h->name, out);
        else if (is_entry && !is_brief)
            rc = PFL_ELIMIT;
    }
    return rc;
}

static int append_hosts(const struct pfl_fleet_state_host *hosts, size_t len, bool is_brief,
                        struct sums *sums, struct pfl_buf *out)
{
    int rc = 0;

    *sums = (struct sums){0};
    pfl_buf_clear(out);
    for (size_t i = 0; rc == 0 && i < len; i++) {
        if (hosts[i].why[0] != '\0') {
            pfl_fleet_words_add(&sums->missing, hosts[i].name, hosts[i].why);
            continue;
        }
        sums->there++;
        rc = append_host(&hosts[i], i, is_brief, sums, out);
    }
    return rc;
}

static int append_sums(const struct sums *sums, const char *version, struct pfl_buf *out)
{
    uint8_t bytes[REST_BYTES];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__NUM_SESSIONS, sums->sessions);
    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__NUM_SESSIONS_STARTED, sums->started);
    pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__TRACING_SERVICE_VERSION, version,
                           strlen(version));
    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__SUPPORTS_TRACING_SESSIONS, 1);
    if (w.failed)
        return PFL_ELIMIT;
    return pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
}

int pfl_fleet_state_join(const struct pfl_fleet_state_host *hosts, size_t len, const char *version,
                         struct pfl_buf *out)
{
    char text[sizeof(((struct sums *)NULL)->missing.text) + 256];
    struct sums sums;
    int rc = append_hosts(hosts, len, false, &sums, out);

    if (rc == PFL_ELIMIT)
        rc = append_hosts(hosts, len, true, &sums, out);
    pfl_fleet_words_end(&sums.missing);
    if (sums.there == len)
        (void)snprintf(text, sizeof(text), "perfleet %.64s: %zu host%s", version, len,
                       len == 1 ? "" : "s");
    else
        (void)snprintf(text, sizeof(text), "perfleet %.64s: %zu of %zu hosts; missing: %s", version,
                       sums.there, len, sums.missing.text);
    return rc == 0 ? append_sums(&sums, text, out) : rc;
}

void pfl_fleet_words_add(struct pfl_fleet_words *self, const char *name, const char *why)
{
    size_t room = sizeof(self->text) - self->len;
    int n = 0;

    if (self->count++ < WORDS_MAX)
        n = snprintf(self->text + self->len, room, "%s%.*s (%.*s)", self->len != 0 ? ", " : "",
                     WHY_BYTES / 2, name, WHY_BYTES, why);
    if (n > 0 && (size_t)n < room)
        self->len += (size_t)n;
    self->text[self->len] = '\0';
}

void pfl_fleet_words_end(struct pfl_fleet_words *self)
{
    if (self->count > WORDS_MAX)
        (void)snprintf(self->text + self->len, sizeof(self->text) - self->len, " and %zu others",
                       self->count - WORDS_MAX);
}
