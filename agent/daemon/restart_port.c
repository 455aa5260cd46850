/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores streams of the agent's previous process from the descriptors that the service manager
 * kept (stream_keep_port.c).
 *
 * Happy path: for each memory-ID, find the other descriptors by name and make a stream that waits
 * for its operator. Failures: descriptors that do not match, or of another version, are logged and
 * dropped, in the manager's store, too: their session ends. Ownership: descriptors are transferred
 * to their stream. Limits: PFL_AGENT_MAX_STREAMS.
 */
#include <string.h>
#include <unistd.h>

#include "agent/daemon/port_impl.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/log.h"
#include "base/notify.h"

/* The name after `prefix`; NULL: it has another prefix. */
static const char *get_id(const struct pfl_stored_fd *stored, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(stored->name, prefix, len) == 0 ? stored->name + len : NULL;
}

/* Taken over; -1: there is none. */
static int take_fd(struct pfl_stored_fds *stored, const char *prefix, const char *id)
{
    for (size_t i = 0; i < stored->len; i++) {
        struct pfl_stored_fd *it = &stored->list[i];
        const char *its_id = it->fd >= 0 ? get_id(it, prefix) : NULL;
        int fd = it->fd;

        if (its_id == NULL || strcmp(its_id, id) != 0)
            continue;
        it->fd = -1;
        return fd;
    }
    return -1;
}

static int take_stream(struct pfl_agent *a, struct pfl_stored_fds *stored, const char *id)
{
    struct pfl_agent_stream_conf conf;
    struct pfl_agent_stream *s;
    struct pfl_agent_stream_kept kept;
    int rc;

    if (a->streams_len == PFL_AGENT_MAX_STREAMS)
        return PFL_ELIMIT;
    kept = (struct pfl_agent_stream_kept){.id = id,
                                          .memory_fd = take_fd(stored, PFL_AGENT_KEPT_MEMORY, id),
                                          .service_fd = take_fd(stored, PFL_AGENT_KEPT_SERVICE, id),
                                          .spool_fd = take_fd(stored, PFL_AGENT_KEPT_SPOOL, id)};
    if (kept.service_fd < 0) {
        (void)close(kept.memory_fd);
        if (kept.spool_fd >= 0)
            (void)close(kept.spool_fd);
        return PFL_ENOENT;
    }
    pfl_agent_fill_stream_conf(a, &conf);
    rc = pfl_agent_stream_take_back(&conf, &kept, &s);
    if (rc != 0)
        return rc;
    a->streams_len++;
    pfl_list_append(&a->streams, pfl_agent_stream_get_node(s));
    return 0;
}

static bool is_taken(struct pfl_agent *a, const char *id)
{
    struct pfl_agent_stream_info info;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &a->streams) {
        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &info);
        if (strcmp(info.id, id) == 0)
            return true;
    }
    return false;
}

/* The manager has more than one descriptor of this name: removing by name would remove all of
 * them. */
static bool is_double(struct pfl_agent *a, const struct pfl_stored_fd *stored)
{
    static const char *const prefixes[] = {PFL_AGENT_KEPT_MEMORY, PFL_AGENT_KEPT_SERVICE,
                                           PFL_AGENT_KEPT_SPOOL};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const char *id = get_id(stored, prefixes[i]);

        if (id != NULL && is_taken(a, id))
            return true;
    }
    return false;
}

/* Remaining descriptors belong to no stream: its start or end was interrupted. Closing them ends
 * the connection for the service. */
static void give_up(struct pfl_agent *a, struct pfl_stored_fds *stored)
{
    for (size_t i = 0; i < stored->len; i++) {
        struct pfl_stored_fd *it = &stored->list[i];

        if (it->fd < 0 || it->name[0] == '\0')
            continue;
        if (!is_double(a, it))
            pfl_notify_unstore(it->name);
        (void)close(it->fd);
        it->fd = -1;
    }
}

void pfl_agent_take_streams_back(struct pfl_agent *self, struct pfl_stored_fds *stored)
{
    unsigned taken = 0;

    for (size_t i = 0; i < stored->len; i++) {
        const struct pfl_stored_fd *it = &stored->list[i];
        const char *id = it->fd >= 0 ? get_id(it, PFL_AGENT_KEPT_MEMORY) : NULL;
        int rc;

        if (id == NULL || is_taken(self, id))
            continue;
        rc = take_stream(self, stored, id);
        taken += rc == 0;
        if (rc == 0)
            continue;
        pfl_log_warn("stream-not-restored",
                     "was=stream-not-taken-back stream=%s reason=\"%s\" effect=\"it ends\"",
                     pfl_log_quote_str(id), pfl_err_str(rc));
        pfl_agent_stream_forget(id);
    }
    give_up(self, stored);
    if (taken != 0)
        pfl_log_info("streams-restored",
                     "was=streams-taken-back count=%u effect=\"their operators can continue\"",
                     taken);
}
