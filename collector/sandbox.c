/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's sandbox: TCP, name servers, certificates and credentials to read again, and
 * everything beneath the store's folder and the index's; for S3, files without a name in the
 * staging folder. No programs, no listening, no other files. Where the store or the index is
 * elsewhere on the network, ports are not limited. Failures: those of pfl_sandbox_enter.
 */
#include "collector/sandbox.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sandbox/folders.h"
#include "collector/index/index.h"
#include "tunnel/dialer.h"

#define PORT_DNS 53u
#define SQLITE   "sqlite:"

static bool read_port(const char *address, uint16_t *ret_port)
{
    struct pfl_dialer_address parts;
    char *end = NULL;
    unsigned long port = 0;

    if (pfl_dialer_parse_address(address, &parts))
        port = strtoul(parts.port, &end, 10);
    if (port == 0 || port > UINT16_MAX || *end != '\0')
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

static bool is_folder(const char *store)
{
    return strncmp(store, "s3://", strlen("s3://")) != 0;
}

static const char *get_file(const char *index)
{
    return strncmp(index, SQLITE, strlen(SQLITE)) == 0 ? index + strlen(SQLITE) : NULL;
}

/* None: any port. */
static size_t list_ports(const struct pfl_collector_conf *conf, const char *index, uint16_t *ports)
{
    size_t len = 0;

    if (!is_folder(conf->store.where) || get_file(index) == NULL)
        return 0;
    ports[len++] = PORT_DNS;
    for (size_t i = 0; i < conf->relays_len; i++) {
        if (!read_port(conf->relays[i], &ports[len++]))
            return 0;
    }
    return len;
}

static void add_file(void *user, const char *path)
{
    if (access(path, F_OK) == 0)
        pfl_folders_add_of_file(user, path, PFL_SANDBOX_READ);
}

static void add_s3(const struct pfl_store_conf *store, struct pfl_folders *folders)
{
    const char *shared = getenv("AWS_SHARED_CREDENTIALS_FILE");
    const char *staging = store->staging_dir;

    pfl_folders_add_of_file(folders, store->ca_file, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, store->credentials_file, PFL_SANDBOX_READ);
    if (store->credentials_file == NULL && shared != NULL && shared[0] != '\0')
        add_file(folders, shared);
    pfl_folders_add(folders, staging != NULL ? staging : PFL_STORE_STAGING_DIR,
                    PFL_SANDBOX_UNNAMED);
}

static void list_folders(const struct pfl_collector_conf *conf, const char *index,
                         struct pfl_folders *folders)
{
    folders->len = 0;
    pfl_folders_add_if_there(folders, "/etc", PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, "/etc/resolv.conf", PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, conf->files.ca_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, conf->files.cert_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, conf->files.key_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, conf->files.crl_path, PFL_SANDBOX_READ);
    if (is_folder(conf->store.where))
        pfl_folders_add(folders, conf->store.where, PFL_SANDBOX_KEEP);
    else
        add_s3(&conf->store, folders);
    pfl_folders_add_of_file(folders, get_file(index), PFL_SANDBOX_KEEP);
    pfl_index_list_files(index, add_file, folders);
    if (conf->metrics_socket != NULL && conf->metrics_socket[0] != '@')
        pfl_folders_add_of_file(folders, conf->metrics_socket, PFL_SANDBOX_REMOVE);
}

int pfl_collector_sandbox_enter(const struct pfl_collector_conf *conf, const char *index)
{
    static struct pfl_folders folders;
    uint16_t ports[PFL_RELAYS_MAX + 1];
    struct pfl_sandbox_conf sandbox = {
        .mode = conf->sandbox,
        .user = conf->run_as,
        .needs = PFL_SANDBOX_DIALS,
        .dial_ports = ports,
    };

    if (get_file(index) == NULL) /* PostgreSQL on a UNIX socket */
        sandbox.needs |= PFL_SANDBOX_CONNECTS_UNIX;
    sandbox.dial_ports_len = list_ports(conf, index, ports);
    list_folders(conf, index, &folders);
    sandbox.folders = folders.list;
    sandbox.folders_len = folders.len;
    return pfl_sandbox_enter(&sandbox);
}
