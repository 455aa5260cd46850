/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket addresses and permissions from text.
 *
 * The families are told apart as every Perfetto program does it: vsock:// and a numeric suffix
 * after a colon are networks, @ is abstract, the rest is a path. Networks are refused: producers
 * behind them have no shared memory, which is a later feature. Limits: 16 producer addresses.
 */
#include "service/socket_names.h"

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

static bool is_network(const char *address)
{
    const char *port = strrchr(address, ':');

    if (address[0] == '@')
        return false;
    if (strncmp(address, "vsock://", 8) == 0)
        return true;
    return port != NULL && port[1] != '\0' && strspn(port + 1, "0123456789") == strlen(port + 1);
}

static int check_address(const char *address, const char **ret_bad)
{
    size_t len = strlen(address);

    *ret_bad = address;
    if (len == 0 || len > MAX_ADDRESS_LEN)
        return PFL_EINVAL;
    return is_network(address) ? PFL_EPERM : 0;
}

int pfl_socket_names_split(struct pfl_socket_names *self, const char **ret_bad)
{
    char *rest;
    char *address;
    int rc;

    self->list = pfl_mem_strdup(self->producer_list);
    if (self->list == NULL)
        return PFL_ENOMEM;
    *ret_bad = self->producer_list;
    rest = self->list;
    while ((address = strsep(&rest, ",")) != NULL) {
        if (self->producers_len == PFL_DAEMON_MAX_PRODUCER_SOCKETS)
            return PFL_EINVAL;
        rc = check_address(address, ret_bad);
        if (rc != 0)
            return rc;
        self->producers[self->producers_len++] = address;
    }
    return check_address(self->consumer, ret_bad);
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
