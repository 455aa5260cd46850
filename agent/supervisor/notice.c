/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of lines KEY=VALUE: see notice.h.
 *
 * parse: line by line; the last line of a key counts. Unknown keys are dropped, so that only a
 * service's state is passed to the manager above. Failure: PFL_EPARSE. An invalid name is not an
 * error: the descriptor is kept without one.
 */
#include "agent/supervisor/notice.h"

#include <assert.h>
#include <string.h>

static const char *const passed_on[] = {
    "READY=",    "RELOADING=",           "STOPPING=",      "STATUS=",  "MONOTONIC_USEC=", "ERRNO=",
    "WATCHDOG=", "EXTEND_TIMEOUT_USEC=", "WATCHDOG_USEC=", "BUSERROR="};

static bool begins_with(struct pfl_span line, const char *text)
{
    size_t len = strlen(text);

    return line.len >= len && memcmp(line.data, text, len) == 0;
}

static bool is_of_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static void take_name(struct pfl_notice *self, const uint8_t *name, size_t len)
{
    self->has_bad_name = len == 0 || len > PFL_STORED_FDS_NAME_MAX_BYTES;
    for (size_t i = 0; i < len && !self->has_bad_name; i++)
        self->has_bad_name = !is_of_name(name[i]);
    if (self->has_bad_name)
        len = 0;
    memcpy(self->name, name, len);
    self->name[len] = '\0';
}

static void pass_on(struct pfl_notice *self, struct pfl_span line)
{
    char *to = self->passed_on + self->passed_on_len;

    if (self->passed_on_len != 0) {
        *to++ = '\n';
        self->passed_on_len++;
    }
    memcpy(to, line.data, line.len);
    self->passed_on_len += line.len;
    assert(self->passed_on_len <= PFL_NOTICE_MAX_BYTES);
}

static void take_line(struct pfl_notice *self, struct pfl_span line)
{
    static const char name[] = "FDNAME=";

    if (pfl_span_is(line, "READY=1"))
        self->is_ready = true;
    if (pfl_span_is(line, "FDSTORE=1"))
        self->stores = true;
    else if (pfl_span_is(line, "FDSTOREREMOVE=1"))
        self->removes = true;
    else if (begins_with(line, name))
        take_name(self, line.data + strlen(name), line.len - strlen(name));
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        if (begins_with(line, passed_on[i])) {
            pass_on(self, line);
            return;
        }
    }
}

int pfl_notice_parse(struct pfl_span datagram, struct pfl_notice *ret_notice)
{
    const uint8_t *at = datagram.data;
    size_t left = datagram.len;

    if (left == 0 || left > PFL_NOTICE_MAX_BYTES || memchr(at, '\0', left) != NULL)
        return PFL_EPARSE;
    *ret_notice = (struct pfl_notice){0};
    while (left > 0) {
        const uint8_t *end = memchr(at, '\n', left);
        size_t len = end != NULL ? (size_t)(end - at) : left;

        take_line(ret_notice, pfl_span_of(at, len));
        len += end != NULL;
        at += len;
        left -= len;
    }
    if (ret_notice->name[0] == '\0') {
        ret_notice->removes = false;
        memcpy(ret_notice->name, PFL_NOTICE_NO_NAME, sizeof(PFL_NOTICE_NO_NAME));
    }
    ret_notice->passed_on[ret_notice->passed_on_len] = '\0';
    return 0;
}
