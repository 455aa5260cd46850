/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts and certificates. Happy path: options are collected while they are parsed; certificates are
 * loaded once at the end, and again when the revocation list changes while the command runs.
 * Failures are reported on stderr with the remedy, and the command ends with its usage exit code.
 * Ownership: targets own their specs and the TLS conf; paths are borrowed from argv.
 */
#include "consumer/cmd/targets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/mem.h"
#include "base/unix_addr.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"
#include "proto/tunnel/identity.h"

#define LIST_LOOK_MS 1000u

void pfl_targets_init(struct pfl_targets *self)
{
    *self = (struct pfl_targets){.timeout_ms = PFL_TARGETS_TIMEOUT_MS,
                                 .hosts_max = PFL_TARGETS_MAX_HOSTS};
}

void pfl_targets_fini(struct pfl_targets *self)
{
    pfl_mem_free(self->specs);
    pfl_inventory_free(self->inventory);
    if (self->tls != NULL)
        pfl_tls_conf_unref(self->tls);
    pfl_targets_init(self);
}

bool pfl_targets_add(struct pfl_targets *self, const char *arg)
{
    if (self->hosts_len == PFL_TARGETS_MAX_HOSTS) {
        pfl_cmd_error("more than %u hosts", PFL_TARGETS_MAX_HOSTS);
        return false;
    }
    self->hosts[self->hosts_len++] = arg;
    return true;
}

bool pfl_targets_grow(struct pfl_targets *self, struct pfl_host_spec **ret_spec)
{
    struct pfl_host_spec *grown;

    if (self->specs_len == self->hosts_max) {
        pfl_cmd_error("more than %zu hosts: select fewer with --select", self->hosts_max);
        return false;
    }
    grown = pfl_mem_realloc(self->specs, (self->specs_len + 1) * sizeof(*grown));
    if (grown == NULL) {
        pfl_cmd_error("out of memory");
        return false;
    }
    self->specs = grown;
    *ret_spec = &grown[self->specs_len++];
    return true;
}

static bool can_connect(const char *path, int *ret_error)
{
    struct sockaddr_un address;
    socklen_t len;
    int fd;
    bool is_there;

    *ret_error = EINVAL;
    if (pfl_unix_addr_parse(path, &address, &len) != 0)
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    is_there = fd >= 0 && (connect(fd, (struct sockaddr *)&address, len) == 0 || errno == EAGAIN);
    *ret_error = is_there ? 0 : errno;
    if (fd >= 0)
        close(fd);
    return is_there;
}

/* No host was given: uses this machine, if its service answers. */
static bool take_local(struct pfl_targets *t)
{
    struct pfl_host_spec *spec;
    char why[512];
    int error = EINVAL; /* of an address that is none */

    if (!pfl_targets_grow(t, &spec))
        return false;
    if (pfl_host_spec_parse("local", spec, why, sizeof(why)) == 0 &&
        can_connect(spec->address, &error))
        return true;
    t->specs_len = 0;
    if (error == EACCES || error == EPERM)
        pfl_cmd_error("no host is given, and this machine's service at %s is not open to you: run "
                      "the command as a user that may open that socket, or give --host, or --relay "
                      "HOST:PORT with --select",
                      spec->address);
    else
        pfl_cmd_error("no host is given, and no service answers on this machine (%s: %s): give "
                      "--host, or --relay HOST:PORT with --select, or start perfleetd here",
                      spec->address, strerror(error));
    return false;
}

/* Hosts that are addresses. */
static bool parse_hosts(struct pfl_targets *t)
{
    struct pfl_host_spec *spec;
    char why[512];

    if (t->selection != NULL) {
        pfl_cmd_error("--select chooses among the hosts of a relay: give --relay HOST:PORT");
        return false;
    }
    for (size_t i = 0; i < t->hosts_len; i++) {
        if (!pfl_targets_grow(t, &spec))
            return false;
        if (pfl_host_spec_parse(t->hosts[i], spec, why, sizeof(why)) != 0) {
            pfl_cmd_error("--host %s%s", why,
                          pfl_host_is_name(t->hosts[i])
                              ? "; a name alone is a host behind a relay: give --relay HOST:PORT"
                              : "");
            return false;
        }
    }
    return t->specs_len != 0 || take_local(t);
}

static bool needs_tls(const struct pfl_targets *t)
{
    if (t->relay != NULL)
        return true;
    for (size_t i = 0; i < t->specs_len; i++)
        if (t->specs[i].kind == PFL_HOST_TLS)
            return true;
    return false;
}

/* Takes the fleet from our own certificate. Without a name there, any fleet of the CA is
 * accepted. */
static void learn_fleet(struct pfl_targets *t)
{
    char role[PFL_HOST_NAME_MAX];
    char name[PFL_HOST_NAME_MAX];
    char fleet[PFL_HOST_NAME_MAX];

    if (pfl_host_uri_parse(pfl_tls_conf_get_identity(t->tls)->uri, fleet, role, name))
        memcpy(t->fleet, fleet, sizeof(t->fleet));
}

/* The list that was named; or the one in the configuration directory, if it is there. */
static const char *choose_list(const struct pfl_targets *t)
{
    if (t->crl_path != NULL)
        return t->crl_path;
    return access(t->crl_default, F_OK) == 0 ? t->crl_default : NULL;
}

static int load_files(const struct pfl_targets *self, char *ret_why, size_t why_len,
                      struct pfl_tls_conf **ret_tls)
{
    struct pfl_tls_files files = {
        .ca_path = self->ca_path,
        .crl_path = choose_list(self),
        .cert_path = self->cert_path,
        .key_path = self->key_path,
        .alpn = self->relay != NULL ? pfl_tunnel_client_alpn : NULL,
    };

    return pfl_tls_conf_new(&files, ret_why, why_len, ret_tls);
}

/* ---- the revocation list, while the command runs ---- */

/* True: its file is another one than it was when this was called last. */
static bool has_list_changed(struct pfl_targets *t)
{
    const char *path = t->crl_path != NULL ? t->crl_path : t->crl_default;
    struct pfl_list_watch *w = &t->list;
    struct pfl_list_watch was = *w;
    struct stat st;

    if (stat(path, &st) != 0) {
        w->size = -1;
        return false; /* until there is one again, the last one holds */
    }
    w->changed = st.st_mtim;
    w->inode = st.st_ino;
    w->size = st.st_size;
    return was.size != w->size || was.inode != w->inode ||
           was.changed.tv_sec != w->changed.tv_sec || was.changed.tv_nsec != w->changed.tv_nsec;
}

/* Half a file says why, and is read again when it is whole. */
static void on_list_look(uv_timer_t *timer)
{
    struct pfl_targets *t = timer->data;
    struct pfl_tls_conf *fresh = NULL;
    struct pfl_tls_conf *old = t->tls;
    char why[512] = "";

    if (!has_list_changed(t))
        return;
    if (load_files(t, why, sizeof(why), &fresh) != 0) {
        pfl_cmd_error("%s: the revocation list that was read before stays in use", why);
        return;
    }
    t->tls = fresh;
    t->list.has_changed = true;
    if (t->tunnel != NULL)
        pfl_tunnel_client_set_tls(t->tunnel, fresh);
    pfl_host_conn_review_all(&t->conns);
    pfl_tls_conf_unref(old);
}

static void watch_list(struct pfl_targets *t)
{
    if (t->tls == NULL)
        return;
    (void)uv_timer_init(t->loop, &t->list.timer);
    t->list.timer.data = t;
    t->list.is_open = true;
    (void)uv_timer_start(&t->list.timer, on_list_look, LIST_LOOK_MS, LIST_LOOK_MS);
    uv_unref((uv_handle_t *)&t->list.timer);
}

static void stop_watching(struct pfl_targets *t)
{
    if (t->list.is_open)
        uv_close((uv_handle_t *)&t->list.timer, NULL);
    t->list.is_open = false;
}

/* ---- opening ---- */

/* A host's certificate would be refused by every relay, without a word. */
static bool is_operators(const struct pfl_targets *t)
{
    const char *uri = pfl_tls_conf_get_identity(t->tls)->uri;
    struct pfl_identity id;

    if (pfl_identity_parse(uri, &id) != 0 || id.role == PFL_IDENTITY_OPERATOR)
        return true;
    pfl_cmd_error("%s is a %s's certificate (%s): give an operator's (perfleet pki operator DIR "
                  "NAME makes one)",
                  t->cert_path, pfl_identity_role_name(id.role), uri);
    return false;
}

static bool load_certificates(struct pfl_targets *self)
{
    char why[512] = "";

    if (!needs_tls(self))
        return true;
    self->is_past_options = true;
    (void)has_list_changed(self); /* before it is read */
    if (load_files(self, why, sizeof(why), &self->tls) != 0) {
        pfl_cmd_error("%s (give --ca, --cert and --key, or put ca.pem, cert.pem and key.pem into "
                      "~/.config/perfleet)",
                      why);
        self->tls = NULL;
        return false;
    }
    learn_fleet(self);
    return is_operators(self);
}

/* Hosts that are no names of a relay's: tls://, unix:, ssh:// or local. */
bool pfl_targets_has_only_addresses(const struct pfl_targets *self)
{
    for (size_t i = 0; i < self->hosts_len; i++)
        if (!pfl_host_is_address(self->hosts[i]))
            return false;
    return self->hosts_len != 0 && self->selection == NULL;
}

int pfl_targets_open(struct pfl_targets *self, uv_loop_t *loop)
{
    int code;

    if (self->is_relay_only && self->relay == NULL) {
        pfl_cmd_error("give --relay ADDRESS: collectors are reached through a relay");
        return PFL_EXIT_USAGE;
    }
    if (self->is_relay_default && !self->is_relay_only && pfl_targets_has_only_addresses(self))
        self->relay = NULL;
    if ((self->relay == NULL && !parse_hosts(self)) || !load_certificates(self))
        return PFL_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (pfl_loop_init(loop) != 0) {
        pfl_cmd_error("out of memory");
        return PFL_EXIT_NOTHING;
    }
    self->loop = loop;
    pfl_list_init(&self->conns);
    watch_list(self);
    if (self->relay != NULL)
        code = pfl_targets_open_relay(self);
    else
        code = pfl_targets_open_ssh(self) ? PFL_EXIT_OK : PFL_EXIT_NOTHING;
    if (code != PFL_EXIT_OK)
        pfl_targets_close(self);
    return code;
}

void pfl_targets_fill_conn(struct pfl_targets *self, struct pfl_host_conn_conf *ret_conf)
{
    *ret_conf = (struct pfl_host_conn_conf){
        .loop = self->loop,
        .tls = &self->tls,
        .all = &self->conns,
        .tunnel = self->tunnel,
        .fleet = self->fleet[0] != '\0' ? self->fleet : NULL,
        .handshake_timeout_ms = self->timeout_ms,
    };
}

void pfl_targets_close(struct pfl_targets *self)
{
    pfl_targets_close_relay(self);
    pfl_targets_close_ssh(self);
    stop_watching(self);
    uv_run(self->loop, UV_RUN_DEFAULT);
    uv_loop_close(self->loop);
    self->loop = NULL;
}
