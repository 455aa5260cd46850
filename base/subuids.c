/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of user ids and who owns them: see subuids.h.
 *
 * Happy path: each line OWNER:FIRST:COUNT becomes a range; ranges are sorted by the text of their
 * owner, then each line of passwd(5) finds its own. An owner may be a number. For an owner that
 * passwd does not have (of another user database, or a name that only root's tools use) each range
 * counts as a separate user. NSS is not used: it can take a minute, and may use the network.
 * Failures: a malformed line is skipped, as newuidmap(1) does. Ranges of one id are skipped, too:
 * they let root map a user into a container, and do not give it several ids. Of overlapping ranges
 * the first in the order of owners counts. Limits: PFL_SUBUIDS_*; one walk over the ranges per
 * lookup.
 */
#include "base/subuids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define RANGES_PATH "/etc/subuid"
#define USERS_PATH  "/etc/passwd"

struct named {
    struct pfl_span name; /* borrowed from the text */
    struct pfl_subuids_range range;
};

static struct pfl_subuids loaded;

/* Cuts the text before `end`, which goes too, off its front. */
static struct pfl_span take_until(struct pfl_span *text, char end)
{
    const uint8_t *at = text->len != 0 ? memchr(text->data, end, text->len) : NULL;
    struct pfl_span head = *text;

    if (at != NULL)
        head.len = (size_t)(at - text->data);
    text->data += at != NULL ? head.len + 1 : head.len;
    text->len -= at != NULL ? head.len + 1 : head.len;
    return head;
}

static bool parse_number(struct pfl_span text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 10)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret_value = value;
    return true;
}

static bool parse_range(struct pfl_span line, struct named *ret_named)
{
    struct pfl_span name = take_until(&line, ':');
    struct pfl_span first_text = take_until(&line, ':');
    uint64_t first;
    uint64_t count;
    uint64_t owner;

    if (name.len == 0 || !parse_number(first_text, &first) || !parse_number(line, &count) ||
        count == 0 || first + count > UINT32_MAX)
        return false;
    if (!parse_number(name, &owner) || owner >= UINT32_MAX)
        owner = first;
    *ret_named = (struct named){.name = name,
                                .range = {.first = (uint32_t)first,
                                          .last = (uint32_t)(first + count - 1),
                                          .owner = (uint32_t)owner}};
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct pfl_span *x = &((const struct named *)a)->name;
    const struct pfl_span *y = &((const struct named *)b)->name;
    int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static size_t parse_ranges(struct pfl_span text, struct named *list, size_t *ignored)
{
    size_t len = 0;

    while (text.len != 0) {
        struct pfl_span line = take_until(&text, '\n');
        struct named one;

        if (line.len == 0 || line.data[0] == '#')
            continue;
        if (!parse_range(line, &one) || len == PFL_SUBUIDS_MAX)
            ++*ignored;
        else if (one.range.last != one.range.first)
            list[len++] = one;
    }
    if (len != 0)
        qsort(list, len, sizeof(list[0]), compare_names);
    return len;
}

static void set_owner(struct named *list, size_t len, struct pfl_span name, uint32_t uid)
{
    const struct named key = {.name = name};
    struct named *found = bsearch(&key, list, len, sizeof(list[0]), compare_names);
    struct named *at = found;

    if (found == NULL)
        return;
    for (; at != list && compare_names(at - 1, &key) == 0; at--)
        at[-1].range.owner = uid;
    for (at = found; at != list + len && compare_names(at, &key) == 0; at++)
        at->range.owner = uid;
}

static void parse_users(struct pfl_span text, struct named *list, size_t len)
{
    while (text.len != 0 && len != 0) {
        struct pfl_span line = take_until(&text, '\n');
        struct pfl_span name = take_until(&line, ':');
        uint64_t uid;

        (void)take_until(&line, ':');
        if (name.len != 0 && parse_number(take_until(&line, ':'), &uid) && uid < UINT32_MAX)
            set_owner(list, len, name, (uint32_t)uid);
    }
}

int pfl_subuids_parse(struct pfl_subuids *self, struct pfl_span ranges, struct pfl_span users)
{
    struct named *named = pfl_mem_calloc(PFL_SUBUIDS_MAX, sizeof(*named));
    struct pfl_subuids parsed = {0};
    int rc = named == NULL ? PFL_ENOMEM : 0;

    if (rc == 0) {
        parsed.len = parse_ranges(ranges, named, &parsed.ignored);
        parse_users(users, named, parsed.len);
        parsed.list = pfl_mem_calloc(parsed.len + 1, sizeof(parsed.list[0]));
        if (parsed.list == NULL)
            rc = PFL_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < parsed.len; i++)
        parsed.list[i] = named[i].range;
    pfl_mem_free(named);
    if (rc == 0)
        *self = parsed;
    return rc;
}

void pfl_subuids_fini(struct pfl_subuids *self)
{
    pfl_mem_free(self->list);
    *self = (struct pfl_subuids){0};
}

uint32_t pfl_subuids_owner(const struct pfl_subuids *self, uint32_t uid, uint32_t self_uid)
{
    if (uid == 0 || uid == self_uid)
        return uid;
    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_subuids_range *r = &self->list[i];

        if (uid < r->first || uid > r->last)
            continue;
        /* A user that maps a range for others, as a container manager does, does not give them its
         * own identity. A range may begin with them. */
        if (r->owner != 0 && r->owner != self_uid)
            return r->owner;
        return r->first != 0 && r->first != self_uid ? r->first : r->last;
    }
    return uid;
}

/* ---- the files ---- */

/* Reads the text; empty if there is no such file. */
static int read_file(const char *path, size_t max, uint8_t **ret_text, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t len = 0;
    ssize_t n = 1;
    struct stat st;
    uint8_t *text;

    *ret_text = NULL;
    *ret_len = 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : PFL_EIO;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0 || (size_t)st.st_size > max) {
        (void)close(fd);
        return PFL_EIO;
    }
    text = pfl_mem_alloc((size_t)st.st_size + 1);
    while (text != NULL && n > 0 && len < (size_t)st.st_size) {
        n = read(fd, text + len, (size_t)st.st_size - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    if (text == NULL || n < 0) {
        pfl_mem_free(text);
        return text == NULL ? PFL_ENOMEM : PFL_EIO;
    }
    *ret_text = text;
    *ret_len = len;
    return 0;
}

void pfl_subuids_load(void)
{
    uint8_t *ranges = NULL;
    uint8_t *users = NULL;
    size_t ranges_len = 0;
    size_t users_len = 0;
    int rc = read_file(RANGES_PATH, PFL_SUBUIDS_MAX_BYTES, &ranges, &ranges_len);

    if (rc == 0)
        rc = read_file(USERS_PATH, PFL_USERS_MAX_BYTES, &users, &users_len);
    if (rc == 0) {
        pfl_subuids_fini(&loaded);
        rc = pfl_subuids_parse(&loaded, pfl_span_of(ranges, ranges_len),
                               pfl_span_of(users, users_len));
    }
    pfl_mem_free(ranges);
    pfl_mem_free(users);
    if (rc != 0 || loaded.ignored != 0)
        pfl_log_warn("subordinate-ids-unknown",
                     "file=" RANGES_PATH " reason=\"%s\" lines_ignored=%zu effect=\"each of these "
                     "ids counts as a user\" remedy=\"correct the file, and start again\"",
                     pfl_err_str(rc), loaded.ignored);
}

uint32_t pfl_subuids_find(uint32_t uid)
{
    return loaded.len != 0 ? pfl_subuids_owner(&loaded, uid, (uint32_t)geteuid()) : uid;
}
