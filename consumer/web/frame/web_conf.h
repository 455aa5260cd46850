/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of `perfleet ui` are given, and their limits. */
#ifndef PFL_CONSUMER_WEB_FRAME_WEB_CONF_H
#define PFL_CONSUMER_WEB_FRAME_WEB_CONF_H

#include "consumer/ask/processor_port.h"
#include "consumer/host/host_conn.h"
#include "consumer/web/frame/host_rows.h"

#define PFL_WEB_MAX_QUESTIONS  8u    /* to hosts of pages, at once */
#define PFL_WEB_FRESH_MS       5000u /* what is older is asked for again */
#define PFL_WEB_PACE_MS        300u  /* so often one host of a list is asked, at most */
#define PFL_WEB_PATIENCE_MS    150u  /* a list waits so long for its hosts */
#define PFL_WEB_RELAY_WAIT_MS  1000u /* and so long for the relay's list, when that is old */
#define PFL_WEB_PAGE_MAX_BYTES (4u << 20)

struct pfl_web;

/* The relay, which the command's targets own. */
struct pfl_web_relay {
    const char *name; /* its address as given; NULL: none */
    /* Asks for its hosts. */
    void (*ask)(void *user);
    /* Has it answered? *ret_inventory is transferred; NULL: it did not list them. */
    bool (*take)(void *user, struct pfl_inventory **ret_inventory);
    /* NULL: it is there; else why not. */
    const char *(*get_away)(void *user);
    void *user;
};

/* The Perfetto UI that traces are handed to, as of `perfleet open`. */
struct pfl_web_ui {
    const char *dir; /* NULL: not served by us */
    const char *url; /* unless dir is given */
    uint16_t port;   /* on which it fetches */
};

/* What questions to traces are asked with, as of `perfleet ask`. */
struct pfl_web_ask {
    struct pfl_ask_engine engine;
    const char *why; /* without a program: why there is none */
};

struct pfl_web_conf {
    struct pfl_host_conn_conf
        conn;            /* of all hosts; the port sets spec, on_ready, on_closed, user */
    uint64_t timeout_ms; /* of a host's page */
    const struct pfl_host_spec *specs; /* without relay; borrowed until on_closed, as all strings */
    size_t specs_len;
    struct pfl_web_relay relay;
    struct pfl_inventory *inventory; /* transferred, also on failure; NULL without relay */
    struct pfl_host_rows_conf hosts;
    const char *fleet;        /* "" if it has no name */
    const char *own_name;     /* the operator's, of the certificate; NULL: none */
    const char *collector;    /* its name; NULL: the only one at the relay */
    const char *options;      /* " --relay ...": of the connection, for command lines */
    const char *const *words; /* the same options as words, up to NULL; NULL: none */
    const char *targets;      /* " --select ...": which hosts */
    const char *version;      /* this program's */
    struct pfl_web_ui ui;
    struct pfl_web_ask ask;
    const char *bigtrace_origin;   /* besides the pages' own; NULL: none */
    uint64_t fresh_ms;             /* 0: PFL_WEB_FRESH_MS */
    uint16_t port;                 /* 0: any */
    const char *socket;            /* of a proxy, instead of the port; NULL: none */
    uint32_t proxy_uid;            /* who may connect to it, besides this user and root */
    const char *origin;            /* of the pages, at the proxy; with socket */
    int64_t own_end_s;             /* when the operator's certificate ends; 0: there is none */
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

#endif
