/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the operator's settings: see operator_settings.h.
 *
 * Happy path: environment variables, the user's file, the system's file, and the default places of
 * certificates; then all of them are merged. With PERFLEET_CONFIG that file is read instead of
 * both; if it is empty, none. Failures are reported on stderr with place and remedy. A missing
 * file, or one in a folder that the user may not enter, is skipped; one that others may write is
 * refused, because it selects what to trust. Limits: PFL_SETTINGS_MAX_BYTES a file.
 */
#include "consumer/cmd/operator_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "consumer/cmd/cmd.h"

#define FILE_NAME "perfleet.conf"

void pfl_operator_settings_init(struct pfl_operator_settings *self)
{
    self->user = (struct pfl_operator_file){.path = ""};
    self->system = (struct pfl_operator_file){.path = ""};
    self->folder[0] = '\0';
    self->list[0] = '\0';
    pfl_operator_conf_init(&self->conf);
}

void pfl_operator_settings_fini(struct pfl_operator_settings *self)
{
    pfl_operator_conf_fini(&self->conf);
}

bool pfl_operator_settings_take(struct pfl_operator_settings *self, const char *key,
                                const char *value)
{
    char error[PFL_SETTINGS_ERROR_MAX];

    if (pfl_operator_conf_take(&self->conf, PFL_SETTINGS_FLAG, key, value, error) == 0)
        return true;
    pfl_cmd_error("%s", error);
    return false;
}

/* ---- places ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static void find_folder(char ret_path[PFL_OPERATOR_PATH_MAX])
{
    const char *dir = variable("PERFLEET_CONFIG_DIR");
    const char *config_home = variable("XDG_CONFIG_HOME");
    const char *home = variable("HOME");

    if (dir != NULL)
        snprintf(ret_path, PFL_OPERATOR_PATH_MAX, "%s", dir);
    else if (config_home != NULL)
        snprintf(ret_path, PFL_OPERATOR_PATH_MAX, "%s/perfleet", config_home);
    else
        snprintf(ret_path, PFL_OPERATOR_PATH_MAX, "%s/.config/perfleet", home != NULL ? home : "");
}

static bool join(const char *folder, const char *name, char ret_path[PFL_OPERATOR_PATH_MAX])
{
    int len = snprintf(ret_path, PFL_OPERATOR_PATH_MAX, "%s/%s", folder, name);

    return len > 0 && (size_t)len < PFL_OPERATOR_PATH_MAX;
}

/* Where the prefix is that this program lies beneath, as PREFIX/PFL_BINDIR/NAME. */
static bool find_prefix(char ret_path[PFL_OPERATOR_PATH_MAX])
{
    static const char bindir[] = "/" PFL_BINDIR;
    ssize_t len = readlink("/proc/self/exe", ret_path, PFL_OPERATOR_PATH_MAX - 1);
    char *end;

    if (len <= 0)
        return false;
    ret_path[len] = '\0';
    end = strrchr(ret_path, '/'); /* of the folder */
    if (end == NULL || (size_t)(end - ret_path) < sizeof(bindir) - 1)
        return false;
    *end = '\0';
    end -= sizeof(bindir) - 1;
    if (strcmp(end, bindir) != 0)
        return false;
    *end = '\0';
    return true;
}

/* Where the installation has put it, with whatever prefix. */
static void find_system_file(char ret_path[PFL_OPERATOR_PATH_MAX])
{
    char prefix[PFL_OPERATOR_PATH_MAX];
    char folder[PFL_OPERATOR_PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", PFL_FULL_SETTINGS_DIR);
    if (PFL_SETTINGS_DIR[0] != '/' && find_prefix(prefix) &&
        !join(prefix, PFL_SETTINGS_DIR, folder))
        folder[0] = '\0';
    if (folder[0] == '\0' || !join(folder, "perfleet/" FILE_NAME, ret_path))
        ret_path[0] = '\0';
}

static void find_files(struct pfl_operator_settings *s)
{
    const char *only = getenv("PERFLEET_CONFIG");

    find_folder(s->folder);
    if (only != NULL) {
        snprintf(s->user.path, sizeof(s->user.path), "%s", only);
        s->user.is_named = true;
        return;
    }
    if (!join(s->folder, FILE_NAME, s->user.path))
        s->user.path[0] = '\0'; /* a path that no file can have */
    find_system_file(s->system.path);
}

/* ---- files ---- */

/* The user that runs the command, or ran sudo. */
static bool is_own(uid_t owner)
{
    const char *sudo = variable("SUDO_UID");
    char text[24];

    snprintf(text, sizeof(text), "%u", (unsigned)owner);
    return owner == geteuid() || (geteuid() == 0 && sudo != NULL && strcmp(sudo, text) == 0);
}

static bool is_trusted(const char *path, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        pfl_cmd_error("%s: this is no file", path);
        return false;
    }
    if (S_ISCHR(st.st_mode))
        return true; /* /dev/null */
    if (st.st_uid != 0 && !is_own(st.st_uid)) {
        pfl_cmd_error("%s belongs to user %u: what it says is not used; let it belong to you or "
                      "root (chown), or remove it",
                      path, (unsigned)st.st_uid);
        return false;
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        pfl_cmd_error("%s can be written by others: what it says is not used; chmod go-w %s", path,
                      path);
        return false;
    }
    return true;
}

static bool read_all(int fd, const char *path, struct pfl_buf *out)
{
    uint8_t chunk[4096];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
        int rc = n < 0 ? PFL_EIO : pfl_buf_append(out, chunk, (size_t)n);

        if (n < 0 && errno == EINTR)
            continue;
        if (rc != 0) {
            pfl_cmd_error("%s: %s", path, n < 0 ? strerror(errno) : pfl_err_str(rc));
            return false;
        }
    }
    return true;
}

static bool take_file(struct pfl_operator_settings *s, enum pfl_settings_source source,
                      struct pfl_operator_file *file)
{
    char error[PFL_SETTINGS_ERROR_MAX];
    struct pfl_buf text;
    bool is_good;
    int fd;

    if (file->path[0] == '\0')
        return true;
    fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    file->error = fd < 0 ? errno : 0;
    if (fd < 0 && !file->is_named && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return true;
    if (fd < 0) {
        pfl_cmd_error("%s: %s%s", file->path, strerror(errno),
                      file->is_named ? " (it is named by PERFLEET_CONFIG)" : "");
        return false;
    }
    pfl_buf_init(&text, PFL_SETTINGS_MAX_BYTES);
    is_good = is_trusted(file->path, fd) && read_all(fd, file->path, &text);
    close(fd);
    if (is_good &&
        pfl_operator_conf_take_file(&s->conf, source, file->path, pfl_buf_get(&text), error) != 0) {
        pfl_cmd_error("%s", error);
        is_good = false;
    }
    pfl_buf_fini(&text);
    return is_good;
}

/* ---- all together ---- */

static bool take_variables(struct pfl_operator_settings *s)
{
    const ProtobufCMessageDescriptor *type = s->conf.layers.program->type;
    char error[PFL_SETTINGS_ERROR_MAX];

    for (unsigned i = 0; i < type->n_fields; i++) {
        char name[PFL_SETTINGS_FLAG_MAX];

        pfl_settings_variable_name(&type->fields[i], name);
        if (variable(name) == NULL ||
            pfl_operator_conf_take(&s->conf, PFL_SETTINGS_VARIABLE, type->fields[i].name,
                                   variable(name), error) == 0)
            continue;
        pfl_cmd_error("%s", error);
        return false;
    }
    return true;
}

/* The list is optional: it counts when it is there. */
static bool take_places(struct pfl_operator_settings *s)
{
    static const struct {
        const char *key;
        const char *file;
        bool is_optional;
    } rows[] = {{"ca", "ca.pem", false},
                {"cert", "cert.pem", false},
                {"key", "key.pem", false},
                {"crl", "crl.pem", true}};
    char error[PFL_SETTINGS_ERROR_MAX];
    char path[PFL_OPERATOR_PATH_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!join(s->folder, rows[i].file, path)) {
            pfl_cmd_error("%.100s...: this path is too long", s->folder);
            return false;
        }
        if (rows[i].is_optional) {
            memcpy(s->list, path, sizeof(path));
            if (access(path, F_OK) != 0)
                continue;
        }
        if (pfl_operator_conf_take(&s->conf, PFL_SETTINGS_DEFAULT, rows[i].key, path, error) != 0) {
            pfl_cmd_error("%s", error);
            return false;
        }
    }
    return true;
}

bool pfl_operator_settings_load(struct pfl_operator_settings *self)
{
    char error[PFL_SETTINGS_ERROR_MAX];

    find_files(self);
    if (!take_variables(self) || !take_file(self, PFL_SETTINGS_FILE, &self->user) ||
        !take_file(self, PFL_SETTINGS_SYSTEM, &self->system) || !take_places(self))
        return false;
    if (pfl_operator_conf_build(&self->conf, error) == 0)
        return true;
    pfl_cmd_error("%s", error);
    return false;
}
