/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators' streams to hosts: the operator of each, its share of the relay's memory, and the
 * effect of a changed policy. A core.
 */
#ifndef PFL_RELAY_HUB_STREAM_TABLE_H
#define PFL_RELAY_HUB_STREAM_TABLE_H

#include "base/shares.h"
#include "relay/hub/host_request.h"
#include "relay/hub/stream_splice.h"
#include "relay/hub/traffic.h"
#include "relay/policy/quota.h"

/* The least that unread_max_bytes may be. */
#define PFL_STREAM_TABLE_UNREAD_MIN_MIB 64u
#define PFL_STREAM_TABLE_BUCKETS        1024u

struct pfl_stream_table {
    struct pfl_peer_table *peers;                      /* borrowed */
    struct pfl_quotas *quotas;                         /* borrowed */
    struct pfl_list streams;                           /* they free themselves */
    struct pfl_list buckets[PFL_STREAM_TABLE_BUCKETS]; /* the same, by their host's name */
    struct pfl_shares unread; /* memory for data from and for operators, by the operator's name */
    uint64_t trimmed_share;   /* whose streams were looked at for memory, for a request */
    uint64_t trimmed_ms;      /* and when */
    struct pfl_traffic ended; /* `begun` of all, bytes of those that are over */
};

struct pfl_stream_table_conf {
    struct pfl_peer_table *peers; /* borrowed while there are streams */
    struct pfl_quotas *quotas;    /* the same */
    uint64_t unread_max_bytes;    /* memory for what is not read; shared */
};

/* It is over when no stream is left. */
void pfl_stream_table_init(struct pfl_stream_table *self, const struct pfl_stream_table_conf *conf);
/* Answers a CONNECT, whose `agent` is there: a stream to the host's consumer socket or spool, or to
 * a collector; or a refusal. */
void pfl_stream_table_open(struct pfl_stream_table *self, const struct pfl_host_request *request);
/* Takes a request that changes something at a host from its operator's quota. False: refused
 * already. */
bool pfl_stream_table_take_change(struct pfl_stream_table *self,
                                  const struct pfl_host_request *request);
/* The policy (`host` NULL), or that host's labels, changed: streams that are forbidden now end,
 * those whose role is another are put under it. */
void pfl_stream_table_review(struct pfl_stream_table *self, const char *host);
/* Streams of this operator at this host. */
unsigned pfl_stream_table_count(const struct pfl_stream_table *self, const char *who,
                                const char *host);
void pfl_stream_table_get_traffic(const struct pfl_stream_table *self,
                                  struct pfl_traffic *ret_traffic);

/* Memory for other answers to this operator (`share`); first takes what the operator's streams hold
 * without need. False: the share is used up. */
bool pfl_stream_table_take_memory(struct pfl_stream_table *self, uint64_t share, size_t bytes);
void pfl_stream_table_give_memory(struct pfl_stream_table *self, uint64_t share, size_t bytes);
/* Of tables in which those of one host, and few others, are found: an operator may have streams to
 * thousands. */
size_t pfl_stream_table_get_bucket(const char *host);
/* An operator's number in the shares. */
uint64_t pfl_stream_table_get_share(const char *who);

#endif
