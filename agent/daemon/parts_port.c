/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent's parts have in common: the conf of its streams, and its end when the last part
 * is gone. No failures.
 */
#include "agent/daemon/port_impl.h"
#include "base/mem.h"

void pfl_agent_finish(struct pfl_agent *self)
{
    if (!self->is_closing || self->dialers != 0 || self->streams_len != 0 ||
        self->alarms_len != 0 || self->raises_len != 0 || self->watch != NULL ||
        self->segments != NULL || self->orders != NULL || self->is_event_timer_open)
        return;
    pfl_worker_close(self->worker);
    pfl_worker_close(self->pool.worker);
    pfl_worker_close(self->segments_worker);
    self->conf.on_closed(self->conf.user);
    pfl_tls_conf_unref(self->tls);
    pfl_events_fini(&self->events);
    pfl_mem_free(self->hello);
    pfl_mem_free(self);
}

static void on_stream_gone(void *user)
{
    struct pfl_agent *a = user;
    struct pfl_list *it;

    a->streams_len--;
    PFL_LIST_EACH (it, &a->streams)
        pfl_agent_stream_retry(pfl_agent_stream_of_node(it));
    pfl_agent_finish(a);
}

void pfl_agent_fill_stream_conf(struct pfl_agent *self, struct pfl_agent_stream_conf *ret_conf)
{
    *ret_conf = (struct pfl_agent_stream_conf){
        .loop = self->conf.loop,
        .consumer_socket = self->conf.consumer_socket,
        .pool = &self->pool,
        .worker = self->worker,
        .events = &self->events,
        .spool_bytes = self->conf.spool_bytes,
        .is_to_be_kept = self->conf.keeps_streams,
        .on_gone = on_stream_gone,
        .user = self,
    };
}
