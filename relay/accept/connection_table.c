/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the TLS port: see connection_table.h.
 *
 * Happy path: a connection is added, its handshake ends, peer_admission.h selects the hub or direct
 * mode, and that one takes it until it ends. Failures: each is the end of one connection, counted
 * and reported once: as refused, or as a handshake that failed. Ownership: borrows the connections
 * from the shell; allocates nothing. Limits: the listener's max_connections.
 */
#include "relay/accept/connection_table.h"

#include <assert.h>
#include <string.h>

/* If the hub says no more. */
static const struct pfl_identity_refusal not_taken = {
    "too many connections of this operator, or out of memory", "close some"};
static const struct pfl_identity_refusal revoked = {"its certificate was revoked", NULL};

void pfl_connection_table_init(struct pfl_connection_table *self,
                               const struct pfl_connection_table_conf *conf)
{
    *self = (struct pfl_connection_table){.conf = *conf};
    pfl_list_init(&self->connections);
}

static void report(struct pfl_connection_table *self, enum pfl_accept_event event,
                   const struct pfl_accepted_connection *connection,
                   const struct pfl_identity_refusal *why)
{
    struct pfl_accept_report r = {.event = event, .connection = connection};

    if (why != NULL)
        r.why = *why;
    self->conf.shell->report(self->conf.shell->user, &r);
}

void pfl_connection_table_add(struct pfl_connection_table *self,
                              struct pfl_accepted_connection *connection)
{
    assert(connection->state == PFL_ACCEPTED_HANDSHAKE);
    self->accepted++;
    self->count++;
    pfl_list_append(&self->connections, &connection->node);
}

void pfl_connection_table_count_unopened(struct pfl_connection_table *self)
{
    self->accepted++;
    self->refused++;
}

static bool refuse(struct pfl_connection_table *self, struct pfl_accepted_connection *connection,
                   const struct pfl_identity_refusal *why)
{
    connection->state = PFL_ACCEPTED_REFUSED;
    if (why->reason != NULL)
        report(self, PFL_ACCEPT_PEER_REFUSED, connection, why);
    return false;
}

static bool give(struct pfl_connection_table *self, struct pfl_accepted_connection *connection,
                 const struct pfl_peer_admission *admission)
{
    const struct pfl_accept_shell *shell = self->conf.shell;
    bool is_for_hub = admission->taker == PFL_PEER_TAKER_HUB;
    struct pfl_identity_refusal why = {0};

    if (shell->give(shell->user, connection, admission, &why) != 0)
        return refuse(self, connection, is_for_hub && why.reason == NULL ? &not_taken : &why);
    connection->state = is_for_hub ? PFL_ACCEPTED_IN_HUB : PFL_ACCEPTED_IN_DIRECT;
    return true;
}

bool pfl_connection_table_admit(struct pfl_connection_table *self,
                                struct pfl_accepted_connection *connection,
                                const struct pfl_handshake_result *result)
{
    const struct pfl_accept_shell *shell = self->conf.shell;
    struct pfl_peer_admission_conf conf = {.alpn = result->alpn,
                                           .uri_untrusted = result->uri_untrusted,
                                           .fleet = self->conf.fleet,
                                           .is_revoked = shell->is_revoked(shell->user, connection),
                                           .has_hub = self->conf.has_hub,
                                           .has_direct = self->conf.has_direct};
    struct pfl_peer_admission admission;

    assert(connection->state == PFL_ACCEPTED_HANDSHAKE);
    if (strcmp(result->tls_version, "1.3") == 0)
        self->handshakes_1_3++;
    else
        self->handshakes_1_2++;
    pfl_peer_admission_decide(&conf, &admission);
    if (admission.taker == PFL_PEER_TAKER_NONE)
        return refuse(self, connection, &admission.refusal);
    return give(self, connection, &admission);
}

void pfl_connection_table_fail(struct pfl_connection_table *self,
                               struct pfl_accepted_connection *connection)
{
    assert(pfl_connection_table_is_ours(connection));
    self->refused++;
    if (connection->state == PFL_ACCEPTED_HANDSHAKE && !self->is_draining)
        report(self, PFL_ACCEPT_HANDSHAKE_FAILED, connection, NULL);
}

void pfl_connection_table_remove(struct pfl_connection_table *self,
                                 struct pfl_accepted_connection *connection)
{
    pfl_list_remove(&connection->node);
    self->count--;
}

bool pfl_connection_table_is_ours(const struct pfl_accepted_connection *connection)
{
    return connection->state == PFL_ACCEPTED_HANDSHAKE || connection->state == PFL_ACCEPTED_REFUSED;
}

void pfl_connection_table_drop_revoked(struct pfl_connection_table *self)
{
    const struct pfl_accept_shell *shell = self->conf.shell;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->connections) {
        struct pfl_accepted_connection *connection =
            PFL_CONTAINER_OF(it, struct pfl_accepted_connection, node);

        if (pfl_connection_table_is_ours(connection) || !shell->is_revoked(shell->user, connection))
            continue;
        report(self, PFL_ACCEPT_PEER_DROPPED, connection, &revoked);
        shell->drop(shell->user, connection);
    }
}

bool pfl_connection_table_drain(struct pfl_connection_table *self)
{
    bool is_first = !self->is_draining;

    self->is_draining = true;
    return is_first;
}
