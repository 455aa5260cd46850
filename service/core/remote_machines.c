/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What relays report.
 *
 * A relay is added with its first report and leaves with its connection. As long as there are
 * sessions its reports are kept after that, so that the trace of a machine that went down meanwhile
 * can still be aligned in time. Past PFL_RELAY_MAX the oldest of these is dropped first. If a
 * machine's relay reconnects, the newer entry in the list is used.
 *
 * Failures: PFL_ENOMEM and limits, returned to the caller; those of the encoders stick in the
 * message. Owns the relays; connections and sessions borrow.
 */
#include "service/core/remote_machines.h"

#include "base/mem.h"
#include "base/shares.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/trace_packet.fields.h"

#define SERVICE_SEQUENCE_ID 1u

void pfl_remote_machines_init(struct pfl_remote_machines *self)
{
    *self = (struct pfl_remote_machines){0};
    pfl_list_init(&self->relays);
}

static void drop(struct pfl_remote_machines *self, struct pfl_relay *relay)
{
    pfl_list_remove(&relay->node);
    self->len--;
    pfl_mem_free(relay->info);
    pfl_mem_free(relay);
}

void pfl_remote_machines_fini(struct pfl_remote_machines *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->relays) {
        drop(self, PFL_CONTAINER_OF(it, struct pfl_relay, node));
    }
}

void pfl_remote_machines_forget_gone(struct pfl_remote_machines *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->relays) {
        struct pfl_relay *relay = PFL_CONTAINER_OF(it, struct pfl_relay, node);

        if (relay->is_gone)
            drop(self, relay);
    }
}

static bool drop_oldest_gone(struct pfl_remote_machines *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->relays) {
        struct pfl_relay *relay = PFL_CONTAINER_OF(it, struct pfl_relay, node);

        if (relay->is_gone) {
            drop(self, relay);
            return true;
        }
    }
    return false;
}

/* Among those that are connected. */
static bool has_share(const struct pfl_remote_machines *self, uint64_t who)
{
    struct pfl_list *it;
    size_t all = 0;
    size_t of_who = 0;

    PFL_LIST_EACH (it, &self->relays) {
        const struct pfl_relay *relay = PFL_CONTAINER_OF(it, struct pfl_relay, node);

        all += !relay->is_gone;
        of_who += !relay->is_gone && relay->who == who;
    }
    return who == 0 || pfl_shares_allow(PFL_RELAY_MAX, all, of_who, 1);
}

int pfl_remote_machines_add(struct pfl_remote_machines *self, uint32_t machine_id, uint64_t who,
                            struct pfl_relay **ret_relay)
{
    struct pfl_relay *relay;

    if (machine_id == 0)
        return PFL_EINVAL;
    if (!has_share(self, who) || (self->len >= PFL_RELAY_MAX && !drop_oldest_gone(self)))
        return PFL_ELIMIT;
    relay = pfl_mem_zalloc(sizeof(*relay));
    if (relay == NULL)
        return PFL_ENOMEM;
    relay->machine_id = machine_id;
    relay->who = who;
    pfl_list_append(&self->relays, &relay->node);
    self->len++;
    *ret_relay = relay;
    return 0;
}

void pfl_remote_machines_leave(struct pfl_remote_machines *self, struct pfl_relay *relay,
                               bool is_kept)
{
    relay->is_gone = true;
    if (!is_kept)
        pfl_remote_machines_forget_gone(self);
}

int pfl_relay_set_info(struct pfl_relay *self, struct pfl_span info)
{
    struct pfl_reader r = pfl_reader_of(info);
    struct pfl_field f;
    uint8_t *bytes;

    if (info.len > PFL_RELAY_INFO_MAX_BYTES)
        return PFL_ELIMIT;
    while (pfl_reader_field(&r, &f))
        continue;
    if (r.failed)
        return PFL_EPARSE;
    bytes = pfl_mem_memdup(info.len != 0 ? info.data : (const uint8_t *)"", info.len);
    if (bytes == NULL)
        return PFL_ENOMEM;
    pfl_mem_free(self->info);
    self->info = bytes;
    self->info_len = info.len;
    return 0;
}

void pfl_relay_add_pair(struct pfl_relay *self, const struct pfl_relay_clocks *client,
                        const struct pfl_relay_clocks *host)
{
    if (self->pairs_len == PFL_RELAY_PAIRS) {
        memmove(self->client, self->client + 1, sizeof(self->client) - sizeof(self->client[0]));
        memmove(self->host, self->host + 1, sizeof(self->host) - sizeof(self->host[0]));
        self->pairs_len--;
    }
    self->client[self->pairs_len] = *client;
    self->host[self->pairs_len++] = *host;
}

static void encode_info(struct pfl_message *m, const struct pfl_service_facts *facts,
                        const struct pfl_relay *relay)
{
    size_t packet = pfl_message_begin(m, TRACE__PACKET);

    pfl_message_bytes(m, TRACE_PACKET__SYSTEM_INFO, pfl_span_of(relay->info, relay->info_len));
    pfl_message_varint(m, TRACE_PACKET__MACHINE_ID, relay->machine_id);
    pfl_message_varint(m, TRACE_PACKET__TRUSTED_UID, (uint64_t)(int64_t)(int32_t)facts->uid);
    pfl_message_varint(m, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, SERVICE_SEQUENCE_ID);
    pfl_message_end(m, packet);
}

/* A ClockSnapshot as field `id`. */
static void encode_reading(struct pfl_message *m, uint32_t id,
                           const struct pfl_relay_clocks *clocks)
{
    size_t snapshot = pfl_message_begin(m, id);

    for (size_t i = 0; i < clocks->len; i++) {
        size_t clock = pfl_message_begin(m, CLOCK_SNAPSHOT__CLOCKS);

        pfl_message_varint(m, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, clocks->clocks[i].clock_id);
        pfl_message_varint(m, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP, clocks->clocks[i].value);
        pfl_message_end(m, clock);
    }
    pfl_message_end(m, snapshot);
}

/* Without a sequence id: it is about the machine, not one of its writers. */
static void encode_pairs(struct pfl_message *m, const struct pfl_service_facts *facts,
                         const struct pfl_relay *relay)
{
    size_t packet = pfl_message_begin(m, TRACE__PACKET);
    size_t sync;

    pfl_message_varint(m, TRACE_PACKET__MACHINE_ID, relay->machine_id);
    pfl_message_varint(m, TRACE_PACKET__TRUSTED_UID, (uint64_t)(int64_t)(int32_t)facts->uid);
    sync = pfl_message_begin(m, TRACE_PACKET__REMOTE_CLOCK_SYNC);
    for (size_t i = 0; i < relay->pairs_len; i++) {
        size_t pair = pfl_message_begin(m, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS);

        encode_reading(m, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__CLIENT_CLOCKS, &relay->client[i]);
        encode_reading(m, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__HOST_CLOCKS, &relay->host[i]);
        pfl_message_end(m, pair);
    }
    pfl_message_end(m, sync);
    pfl_message_end(m, packet);
}

void pfl_remote_machines_encode_infos(const struct pfl_remote_machines *self, struct pfl_message *m,
                                      const struct pfl_service_facts *facts,
                                      struct pfl_machine_set *sent)
{
    for (struct pfl_list *it = self->relays.prev; it != &self->relays; it = it->prev) {
        const struct pfl_relay *relay = PFL_CONTAINER_OF(it, struct pfl_relay, node);

        if (relay->info != NULL && pfl_machine_set_add(sent, relay->machine_id))
            encode_info(m, facts, relay);
    }
}

void pfl_remote_machines_encode_clocks(const struct pfl_remote_machines *self,
                                       struct pfl_message *m, const struct pfl_service_facts *facts,
                                       struct pfl_machine_set *sent)
{
    for (struct pfl_list *it = self->relays.prev; it != &self->relays; it = it->prev) {
        const struct pfl_relay *relay = PFL_CONTAINER_OF(it, struct pfl_relay, node);

        if (relay->pairs_len != 0 && pfl_machine_set_add(sent, relay->machine_id))
            encode_pairs(m, facts, relay);
    }
}
