/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket addresses and permissions from text.
 *
 * The family follows Perfetto's rules: vsock:// and a numeric suffix after a colon are networks, @
 * is abstract, the rest is a path. There is no authentication on a network: TCP addresses that
 * other hosts can reach are refused unless the administrator allows them, and consumers are never
 * served there. Limits: 16 producer addresses.
 */
#include "service/port/socket_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define RUN_DIR         "/run/perfetto/"
#define MAX_ADDRESS_LEN 107u
#define MODE_DIGITS     4u

static const char *get_default(const char *variable, const char *in_run, const char *in_tmp)
{
    const char *value = getenv(variable);

    if (value != NULL && value[0] != '\0')
        return value;
    return access(RUN_DIR, X_OK) == 0 ? in_run : in_tmp;
}

void pfl_socket_names_default(struct pfl_socket_names *self)
{
    if (self->producer_list == NULL)
        self->producer_list = get_default("PERFETTO_PRODUCER_SOCK_NAME",
                                          RUN_DIR "traced-producer.sock", "/tmp/perfetto-producer");
    if (self->consumer == NULL)
        self->consumer = get_default("PERFETTO_CONSUMER_SOCK_NAME", RUN_DIR "traced-consumer.sock",
                                     "/tmp/perfetto-consumer");
}

static enum pfl_socket_family get_family(const char *address)
{
    const char *port = strrchr(address, ':');

    if (address[0] == '@')
        return PFL_SOCKET_UNIX;
    if (strncmp(address, "vsock://", 8) == 0)
        return PFL_SOCKET_VSOCK;
    if (port != NULL && port[1] != '\0' && strspn(port + 1, "0123456789") == strlen(port + 1))
        return PFL_SOCKET_TCP;
    return PFL_SOCKET_UNIX;
}

/* For "host:port": is it reachable only from this host? Names other than localhost are not
 * trusted. */
static bool is_loopback(const char *address)
{
    char host[MAX_ADDRESS_LEN + 1];
    size_t len = (size_t)(strrchr(address, ':') - address);
    struct in_addr in;
    struct in6_addr in6;

    memcpy(host, address, len);
    host[len] = '\0';
    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &in) == 1)
        return ntohl(in.s_addr) >> 24 == 127;
    if (len < 2 || host[0] != '[' || host[len - 1] != ']')
        return false;
    host[len - 1] = '\0';
    return inet_pton(AF_INET6, host + 1, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

static bool has_good_length(const char *address)
{
    return address[0] != '\0' && strlen(address) <= MAX_ADDRESS_LEN;
}

static int add_producer(struct pfl_socket_names *self, const char *address)
{
    enum pfl_socket_family family = get_family(address);

    if (self->producers_len == PFL_DAEMON_MAX_PRODUCER_SOCKETS || !has_good_length(address))
        return PFL_EINVAL;
    if (family == PFL_SOCKET_TCP && !self->allows_network && !is_loopback(address))
        return PFL_EPERM;
    self->producers[self->producers_len++] = (struct pfl_daemon_socket){
        .address = address, .family = family, .has_relay = self->has_relay_all};
    return 0;
}

static int set_relay(struct pfl_socket_names *self, const char *address)
{
    for (size_t i = 0; i < self->producers_len; i++) {
        if (strcmp(self->producers[i].address, address) == 0) {
            self->producers[i].has_relay = true;
            return 0;
        }
    }
    return PFL_ENOENT;
}

static int split_producers(struct pfl_socket_names *self, const char **ret_bad)
{
    char *rest = self->list;
    int rc = 0;

    while (rc == 0 && (*ret_bad = strsep(&rest, ",")) != NULL)
        rc = add_producer(self, *ret_bad);
    for (size_t i = 0; rc == 0 && i < self->relay_on_len; i++) {
        *ret_bad = self->relay_on[i];
        rc = set_relay(self, *ret_bad);
    }
    return rc;
}

int pfl_socket_names_split(struct pfl_socket_names *self, const char **ret_bad)
{
    int rc;

    self->list = pfl_mem_strdup(self->producer_list);
    if (self->list == NULL)
        return PFL_ENOMEM;
    rc = split_producers(self, ret_bad);
    if (rc != 0)
        return rc;
    *ret_bad = self->consumer;
    if (!has_good_length(self->consumer))
        return PFL_EINVAL;
    return get_family(self->consumer) == PFL_SOCKET_UNIX ? 0 : PFL_EPERM;
}

void pfl_socket_names_fini(struct pfl_socket_names *self)
{
    pfl_mem_free(self->list);
    *self = (struct pfl_socket_names){0};
}

static int parse_access(struct pfl_daemon_socket_access *access, char *group, const char **text)
{
    size_t len = strcspn(*text, ":");

    if (len == 0 || len >= 64 || (*text)[len] != ':')
        return PFL_EINVAL;
    memcpy(group, *text, len);
    group[len] = '\0';
    access->group = group;
    *text += len + 1;
    if (strspn(*text, "01234567") != MODE_DIGITS)
        return PFL_EINVAL;
    access->mode = (int)strtol(*text, NULL, 8);
    *text += MODE_DIGITS;
    return 0;
}

int pfl_socket_permissions_parse(struct pfl_socket_permissions *self, const char *text)
{
    int rc = parse_access(&self->producer, self->groups[0], &text);

    if (rc != 0)
        return rc;
    if (*text++ != ':')
        return PFL_EINVAL;
    rc = parse_access(&self->consumer, self->groups[1], &text);
    return rc != 0 || *text != '\0' ? PFL_EINVAL : 0;
}
