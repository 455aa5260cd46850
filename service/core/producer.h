/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected producer: its identity, what it registered, its shared memory, its writers and the
 * buffers it may write to. A core; commands are sent through `ops`.
 */
#ifndef PFL_SERVICE_PRODUCER_H
#define PFL_SERVICE_PRODUCER_H

#include "proto/ipc/commit_data.h"
#include "service/buffer/smb_map.h"
#include "service/buffer/trace_buffer.h"
#include "service/core/copies.h"
#include "service/core/data_source.h"

#define PFL_PRODUCER_MAX_SOURCES      256u
#define PFL_PRODUCER_MAX_SOURCE_BYTES (4u << 20) /* of all descriptors */
#define PFL_PRODUCER_NAME_MAX         8192u      /* a path, or a title with a whole command line */
#define PFL_PRODUCER_SDK_VERSION_MAX  1024u
#define PFL_PRODUCER_WRITERS          32768u

struct pfl_producer_ops {
    /* Sends one GetAsyncCommandResponse; never calls back. `is_setup`: it is the setup_tracing
     * command, which is kept for a producer that has not called GetAsyncCommand yet. */
    void (*send_command)(void *port, struct pfl_span body, int fd, bool is_setup);
    /* False: the rest of a CommitData is for a later turn of the loop. NULL: always true. */
    bool (*may_continue)(void *port);
    /* A CommitData that waited for the copier may continue. Never calls back. */
    void (*on_copied)(void *port);
};

struct pfl_producer_conf {
    uint32_t uid;
    uint64_t who; /* the user: base/shares.h; 0: `uid`, or one share for all emulated producers */
    int64_t pid;  /* -1 unknown */
    struct pfl_span name;
    struct pfl_span sdk_version;
    uint32_t page_hint_bytes;
    uint32_t smb_hint_bytes;
    bool wants_scraping;
    bool is_emulated;         /* a network peer: chunks come inside CommitData */
    uint32_t machine_id;      /* 0: this host */
    const char *machine_name; /* of another machine; borrowed until return, NULL: this host */
    const struct pfl_producer_ops *ops; /* borrowed; static */
    void *port;                         /* borrowed until the producer is removed */
};

struct pfl_producer {
    struct pfl_list node;      /* in the service */
    struct pfl_list permitted; /* likewise, while it may write to a buffer */
    uint64_t permitted_serial; /* ascending in that list */
    uint16_t id;
    uint64_t serial; /* ascending in the service's list; ids are reused */
    uint32_t uid;    /* of a network peer: its claim */
    uint64_t who;    /* the user whose share it uses: base/shares.h */
    int64_t pid;
    uint32_t machine_id; /* 0: this host */
    char *machine_name;  /* owned; NULL: this host's */
    char *name;          /* owned */
    char *sdk_version;   /* owned */
    uint32_t page_hint_bytes;
    uint32_t smb_hint_bytes;
    bool wants_scraping;
    bool is_unreadable; /* its memory, which was noted */
    bool is_emulated;
    bool is_attached; /* the copier has the memory */
    bool is_setup;    /* setup_tracing was sent */
    bool is_counted;  /* what was taken for its connection is released with it */
    struct pfl_list sources;
    size_t sources_len;
    size_t source_bytes;       /* of their descriptors */
    struct pfl_list instances; /* borrowed pfl_instance.of_producer */
    struct pfl_list flushes;   /* borrowed pfl_flush_wait.of_producer */
    uint64_t walk;             /* the last walk over a session's producers that came here */
    struct pfl_smb_map smb;
    struct pfl_copier *copier;   /* reads its memory; NULL: the service does, or there is none */
    struct pfl_copy_job copy;    /* of its commits; after it left: of its last scrape */
    struct pfl_service *service; /* borrowed, after it left */
    struct pfl_trace_buffer_credit credit;
    struct pfl_commit_data_position commit_at; /* in the request that has not ended */
    uint32_t scraped_page;                     /* after it left: where its last scrape continues */
    uint64_t smb_taken_bytes;                  /* pfl_service_take_smb */
    uint64_t held_bytes;                       /* counted in the service's peer_bytes */
    uint16_t *writers;  /* owned: writer id -> buffer id, 0 none; up to writers_cap */
    size_t writers_cap; /* 0 until the first writer */
    size_t writers_len; /* registered */
    uint64_t *allowed;  /* owned: bitmap of buffer ids, NULL while there is none */
    size_t allowed_len; /* set in it */
    const struct pfl_producer_ops *ops;
    void *port;
};

/* PFL_EINVAL (a name that is too long), PFL_ENOMEM. `id` is given by the service. */
PFL_MUST_USE int pfl_producer_new(const struct pfl_producer_conf *conf,
                                  struct pfl_producer **ret_producer);
/* No instance may be left. */
void pfl_producer_free(struct pfl_producer *self);

/* Bytes of the service's memory that it costs, without shared memory. */
uint64_t pfl_producer_get_bytes(const struct pfl_producer *self);

/* The source of that name and, if it has one, id. */
struct pfl_data_source *pfl_producer_find_source(const struct pfl_producer *self,
                                                 struct pfl_span name);
struct pfl_data_source *pfl_producer_find_source_id(const struct pfl_producer *self, uint64_t id);
/* Transfers `source`. PFL_ELIMIT: too many, or too large; then it is still the caller's. */
PFL_MUST_USE int pfl_producer_add_source(struct pfl_producer *self, struct pfl_data_source *source);
/* Codes: PFL_ELIMIT, and those of pfl_data_source_update. On failure the old descriptor stays. */
PFL_MUST_USE int pfl_producer_update_source(struct pfl_producer *self,
                                            struct pfl_data_source *source,
                                            struct pfl_span descriptor);
/* Frees it. */
void pfl_producer_remove_source(struct pfl_producer *self, struct pfl_data_source *source);

/* Later registrations of a writer replace earlier ones; ids out of range are ignored. PFL_ENOMEM */
PFL_MUST_USE int pfl_producer_set_writer(struct pfl_producer *self, uint32_t writer_id_untrusted,
                                         uint32_t buffer_id_untrusted);
/* The buffer that the writer is registered for, 0 when it is not registered. */
uint16_t pfl_producer_get_writer(const struct pfl_producer *self, uint16_t writer_id);

PFL_MUST_USE int pfl_producer_allow(struct pfl_producer *self, uint16_t buffer_id); /* PFL_ENOMEM */
void pfl_producer_forbid(struct pfl_producer *self, uint16_t buffer_id);
bool pfl_producer_is_allowed(const struct pfl_producer *self, uint16_t buffer_id);

#endif
