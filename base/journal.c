/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events for the journal: see journal.h.
 *
 * Happy path: the fixed fields, then the text's keys, one field each. Failures: a field that does
 * not fit is left out. Words without `=` appear only in MESSAGE. Limits: those of the header. A
 * field is "NAME=value\n", so no value may have a line end.
 */
#include "base/journal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unix_addr.h"

struct out {
    char *at;
    size_t len;
};

static void put_char(struct out *o, char c)
{
    if (o->len < PFL_JOURNAL_MAX_BYTES)
        o->at[o->len] = c == '\n' || c == '\0' ? ' ' : c;
    o->len++;
}

static void put(struct out *o, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put_char(o, text[i]);
}

/* Ends a field that began at `mark`: whole, or not at all. */
static void end_field(struct out *o, size_t mark)
{
    if (o->len + 1 > PFL_JOURNAL_MAX_BYTES)
        o->len = mark;
    else
        o->at[o->len++] = '\n';
}

static void put_field(struct out *o, const char *name, const char *value)
{
    size_t mark = o->len;

    put(o, name, strlen(name));
    put_char(o, '=');
    put(o, value, strlen(value));
    end_field(o, mark);
}

static void put_message(struct out *o, const struct pfl_journal_event *e)
{
    size_t mark = o->len;

    put(o, "MESSAGE=", 8);
    put(o, e->level, strlen(e->level));
    put_char(o, ' ');
    put(o, e->event, strlen(e->event));
    put(o, ": ", 2);
    put(o, e->text, strlen(e->text));
    end_field(o, mark);
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A key's length when the text begins with `key=`, else 0. */
static size_t measure_key(const char *text)
{
    size_t len = 0;

    while (is_key_char(text[len]))
        len++;
    return text[len] == '=' && len <= PFL_JOURNAL_KEY_MAX ? len : 0;
}

static void put_key(struct out *o, const char *key, size_t len)
{
    put(o, "PERFLEET_", 9);
    for (size_t i = 0; i < len; i++)
        put_char(o, key[i] >= 'a' && key[i] <= 'z' ? (char)(key[i] - 'a' + 'A') : key[i]);
    put_char(o, '=');
}

/* Returns what follows the value. */
static const char *put_value(struct out *o, const char *text)
{
    bool is_quoted = *text == '"';

    if (is_quoted)
        text++;
    while (*text != '\0' && *text != (is_quoted ? '"' : ' ')) {
        if (is_quoted && *text == '\\' && (text[1] == '"' || text[1] == '\\'))
            text++;
        put_char(o, *text++);
    }
    return *text != '\0' ? text + 1 : text;
}

static const char *skip_word(const char *text)
{
    while (*text != '\0' && *text != ' ')
        text++;
    return *text != '\0' ? text + 1 : text;
}

size_t pfl_journal_encode(const struct pfl_journal_event *event, char out[PFL_JOURNAL_MAX_BYTES])
{
    struct out o = {.at = out};
    const char *text = event->text;
    unsigned fields = 0;
    char priority[2] = {(char)('0' + event->priority), '\0'};

    put_field(&o, "PRIORITY", priority);
    put_field(&o, "SYSLOG_IDENTIFIER", event->program);
    put_field(&o, "PERFLEET_EVENT", event->event);
    put_message(&o, event);
    while (*text != '\0' && fields < PFL_JOURNAL_MAX_FIELDS) {
        size_t key_len = measure_key(text);
        size_t mark = o.len;

        if (key_len == 0) {
            text = skip_word(text);
            continue;
        }
        put_key(&o, text, key_len);
        text = put_value(&o, text + key_len + 1);
        end_field(&o, mark);
        fields++;
        while (*text == ' ')
            text++;
    }
    return o.len;
}

bool pfl_journal_is_stderr(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[64];

    if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
        return false;
    (void)snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(own, stream) == 0;
}

int pfl_journal_connect(const char *path)
{
    struct sockaddr_un addr;
    socklen_t len;
    int fd;

    if (pfl_unix_addr_parse(path, &addr, &len) != 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&addr, len) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}
