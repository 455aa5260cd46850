/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of a command, and the operator's certificate: --host, --relay, --select, --ca, --cert,
 * --key, --timeout.
 */
#ifndef PFL_CONSUMER_TARGETS_H
#define PFL_CONSUMER_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/io/tls_stream.h"
#include "consumer/host/host_conn.h"
#include "consumer/host/inventory.h"

#define PFL_TARGETS_MAX_HOSTS 1024u

struct pfl_ssh;

struct pfl_targets {
    const char *hosts[PFL_TARGETS_MAX_HOSTS]; /* as given; borrowed */
    size_t hosts_len;
    const char *relay;     /* HOST[:PORT]; NULL: hosts are addresses */
    bool is_relay_default; /* from the settings: not used if all hosts are addresses */
    const char *selection; /* of the relay's hosts; NULL: none */
    bool is_all_default;   /* with a relay and no other choice, all its hosts are targets */
    bool is_relay_only;    /* no hosts are chosen: the command speaks to the relay */
    bool has_left_ones;    /* a selection includes hosts that left */
    uint64_t
        min_away_ms;  /* 0; else a selection only includes hosts that left at least that long ago */
    size_t hosts_max; /* maximum of a selection; PFL_TARGETS_MAX_HOSTS */
    struct pfl_tunnel_client *tunnel; /* owned, while open */
    struct pfl_inventory *inventory;  /* owned; NULL without relay */
    struct pfl_ssh *ssh;              /* owned, while open; one for each host by ssh */
    size_t ssh_len;
    bool is_tunnel_closed;
    bool has_answer;             /* of the relay, or a failure */
    char relay_why[768];         /* why it could not be queried, or was lost; "": neither */
    uint64_t relay_retry_max_ms; /* maximal wait before a reconnect; 0: the tunnel's default */
    bool is_past_options; /* further errors do not concern options: do not point to the help */
    struct pfl_host_spec *specs; /* owned */
    size_t specs_len;
    uv_loop_t *loop;          /* the caller's, while open */
    struct pfl_tls_conf *tls; /* owned; NULL without TLS hosts; with the current revocation list */
    struct pfl_list conns;    /* of this command; borrowed */
    struct pfl_list_watch {   /* the revocation list's file */
        uv_timer_t timer;
        struct timespec changed;
        uint64_t inode;
        int64_t size; /* -1: missing */
        bool is_open;
        bool has_changed; /* a list was loaded while the command ran, and on_down was not called
                             since */
    } list;
    char fleet[PFL_HOST_NAME_MAX];
    const char *ca_path;
    const char *crl_path;    /* NULL: crl_default, if it exists */
    const char *crl_default; /* borrowed, like the other paths */
    const char *cert_path;
    const char *key_path;
    uint64_t timeout_ms;
};

#define PFL_TARGETS_TIMEOUT_MS 10000u

void pfl_targets_init(struct pfl_targets *self);
void pfl_targets_fini(struct pfl_targets *self);
/* Adds one --host value; false: error reported on stderr. */
bool pfl_targets_add(struct pfl_targets *self, const char *arg);
/* After the last option: finds the hosts, loads the certificates if needed, queries the relay if
 * there is one, and opens `loop`, which is the caller's memory until close. 0, or the exit code:
 * error reported on stderr, and nothing is open. */
int pfl_targets_open(struct pfl_targets *self, uv_loop_t *loop);
/* Are the hosts of options that are addresses (tls://, unix:, ssh://, local), not names? */
bool pfl_targets_has_only_addresses(const struct pfl_targets *self);
/* With `inventory`: is each --host a name that the relay knows? False: reported on stderr. */
bool pfl_targets_check_names(const struct pfl_targets *self);
/* Sets what is the same for every connection to these hosts. */
void pfl_targets_fill_conn(struct pfl_targets *self, struct pfl_host_conn_conf *ret_conf);
/* For a command that polls: queries the relay's hosts again, over the current or the next
 * connection. When `has_answer` is set, take_hosts makes the selected ones the targets. The old
 * specs and inventory are freed. */
void pfl_targets_ask_relay(struct pfl_targets *self);
/* 0 or the exit code: error reported on stderr. */
int pfl_targets_take_hosts(struct pfl_targets *self);
/* Behind a relay that is currently not connected. */
bool pfl_targets_is_relay_away(const struct pfl_targets *self);
/* Closes the loop; the caller must have closed its handles on it. */
void pfl_targets_close(struct pfl_targets *self);

/* ---- between targets.c, relay_targets.c and ssh_targets.c ---- */

/* Adds one host; false: error reported on stderr. */
bool pfl_targets_grow(struct pfl_targets *self, struct pfl_host_spec **ret_spec);
/* Connects to the relay, queries its hosts, and makes the selected ones the targets; 0 or the exit
 * code. */
int pfl_targets_open_relay(struct pfl_targets *self);
void pfl_targets_close_relay(struct pfl_targets *self);
/* Starts the user's ssh for every host that is reached by it, and waits for its forward. */
bool pfl_targets_open_ssh(struct pfl_targets *self);
void pfl_targets_close_ssh(struct pfl_targets *self);

#endif
