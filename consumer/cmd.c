/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands share: hosts, certificates, durations, files. Happy path: options are collected
 * while they are read; certificates are loaded once at the end. Failures are said on stderr where
 * they arise, with the remedy, and the command ends with its usage exit code.
 * Ownership: targets own their specs and the TLS conf; paths are borrowed from argv.
 */
#include "consumer/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/recording.h"

#define WEEK_MS   (7u * 24 * 3600 * 1000)
#define PATH_ROOM 4096
#define READ_STEP 65536u

void pfl_cmd_error(const char *fmt, ...)
{
    va_list ap;

    fputs("perfleet: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

bool pfl_cmd_parse_duration(const char *arg, uint32_t *ret_ms)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}};
    char *end;
    double value = strtod(arg, &end);

    if (end == arg || !(value > 0) || (*arg != '.' && (*arg < '0' || *arg > '9')))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double ms = value * units[i].ms;

        if (strcmp(end, units[i].suffix) != 0)
            continue;
        if (ms < 1 || ms > WEEK_MS)
            return false;
        *ret_ms = (uint32_t)ms;
        return true;
    }
    return false;
}

bool pfl_cmd_read_file(const char *path, struct pfl_buf *out)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *room;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0) {
        int rc = pfl_buf_reserve(out, READ_STEP, &room);

        if (rc != 0) {
            errno = rc == PFL_ELIMIT ? EFBIG : ENOMEM;
            n = -1;
            break;
        }
        n = read(fd, room, READ_STEP);
        if (n > 0)
            pfl_buf_extend(out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    if (fd >= 0) {
        int saved = errno;

        close(fd);
        errno = saved;
    }
    return n == 0;
}

void pfl_targets_init(struct pfl_targets *self)
{
    *self = (struct pfl_targets){.timeout_ms = PFL_TARGETS_TIMEOUT_MS};
}

void pfl_targets_fini(struct pfl_targets *self)
{
    pfl_mem_free(self->specs);
    if (self->tls != NULL)
        pfl_tls_conf_unref(self->tls);
    pfl_targets_init(self);
}

bool pfl_targets_add(struct pfl_targets *self, const char *arg)
{
    struct pfl_host_spec *grown;
    char why[512];

    if (self->specs_len == PFL_RECORDING_MAX_HOSTS) {
        pfl_cmd_error("more than %u hosts", PFL_RECORDING_MAX_HOSTS);
        return false;
    }
    grown = pfl_mem_realloc(self->specs, (self->specs_len + 1) * sizeof(*grown));
    if (grown == NULL) {
        pfl_cmd_error("out of memory");
        return false;
    }
    self->specs = grown;
    if (pfl_host_spec_parse(arg, &grown[self->specs_len], why, sizeof(why)) != 0) {
        pfl_cmd_error("--host %s", why);
        return false;
    }
    self->specs_len++;
    return true;
}

static bool needs_tls(const struct pfl_targets *t)
{
    for (size_t i = 0; i < t->specs_len; i++)
        if (t->specs[i].kind == PFL_HOST_TLS)
            return true;
    return false;
}

/* Option, else environment, else the file in the configuration directory. */
static const char *choose_path(const char *option, const char *env, const char *file,
                               char room[PATH_ROOM])
{
    const char *dir = getenv("PERFLEET_CONFIG_DIR");
    const char *config_home = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");

    if (option != NULL)
        return option;
    if (getenv(env) != NULL)
        return getenv(env);
    if (dir != NULL)
        snprintf(room, PATH_ROOM, "%s/%s", dir, file);
    else if (config_home != NULL)
        snprintf(room, PATH_ROOM, "%s/perfleet/%s", config_home, file);
    else
        snprintf(room, PATH_ROOM, "%s/.config/perfleet/%s", home != NULL ? home : "", file);
    return room;
}

/* Whose fleet are we of? Without a name in our own certificate any fleet of the CA is accepted. */
static void learn_fleet(struct pfl_targets *t)
{
    char role[PFL_HOST_NAME_MAX];
    char name[PFL_HOST_NAME_MAX];
    char fleet[PFL_HOST_NAME_MAX];

    if (pfl_host_uri_parse(pfl_tls_conf_get_identity(t->tls)->uri, fleet, role, name))
        memcpy(t->fleet, fleet, sizeof(t->fleet));
}

bool pfl_targets_load(struct pfl_targets *self)
{
    char ca[PATH_ROOM];
    char cert[PATH_ROOM];
    char key[PATH_ROOM];
    char why[512] = "";
    struct pfl_tls_files files = {
        .ca_path = choose_path(self->ca_path, "PERFLEET_CA", "ca.pem", ca),
        .cert_path = choose_path(self->cert_path, "PERFLEET_CERT", "cert.pem", cert),
        .key_path = choose_path(self->key_path, "PERFLEET_KEY", "key.pem", key),
    };

    if (self->specs_len == 0) {
        pfl_cmd_error("no host: give at least one --host");
        return false;
    }
    if (!needs_tls(self))
        return true;
    if (pfl_tls_conf_new(&files, why, sizeof(why), &self->tls) != 0) {
        pfl_cmd_error("%s (give --ca, --cert and --key, or put ca.pem, cert.pem and key.pem into "
                      "~/.config/perfleet)",
                      why);
        self->tls = NULL;
        return false;
    }
    learn_fleet(self);
    return true;
}
