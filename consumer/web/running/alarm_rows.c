/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alarms by session: see alarm_rows.h. Failures: no JSON of that form, or no memory, which jansson
 * does not tell apart. Texts are cut, lists of names end with the last one that fits. Limits: those
 * of the header.
 */
#include "consumer/web/running/alarm_rows.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proto/tunnel/identity.h"

static const char *const states[] = {
    [PFL_ALARM_ARMING] = "arming", [PFL_ALARM_ARMED] = "armed",   [PFL_ALARM_COPYING] = "copying",
    [PFL_ALARM_COPIED] = "copied", [PFL_ALARM_FAILED] = "failed", [PFL_ALARM_OTHER] = "other",
};

const char *pfl_alarm_rows_name(enum pfl_alarm_state state)
{
    return states[state];
}

static const char *text_of(const json_t *alarm, const char *key)
{
    const char *text = json_string_value(json_object_get(alarm, key));

    return text != NULL ? text : "";
}

static void append(char room[PFL_ALARM_ROWS_TEXT_BYTES], const char *name)
{
    size_t len = strlen(room);
    size_t left = PFL_ALARM_ROWS_TEXT_BYTES - len;

    if (strlen(name) + 3 <= left)
        (void)snprintf(room + len, left, "%s%s", len != 0 ? ", " : "", name);
}

static enum pfl_alarm_state state_of(const json_t *alarm)
{
    for (size_t i = 0; i < PFL_ALARM_OTHER; i++)
        if (strcmp(states[i], text_of(alarm, "state")) == 0)
            return (enum pfl_alarm_state)i;
    return PFL_ALARM_OTHER;
}

static struct pfl_alarm_row *make_row(struct pfl_alarm_rows *r, const json_t *alarm)
{
    const json_t *triggers = json_object_get(alarm, "triggers");
    struct pfl_alarm_row *row = &r->rows[r->len++];

    *row = (struct pfl_alarm_row){.hosts_len = 0};
    (void)snprintf(row->session, sizeof(row->session), "%s", text_of(alarm, "session"));
    for (size_t i = 0; i < json_array_size(triggers); i++) {
        const char *name = json_string_value(json_array_get(triggers, i));

        append(row->triggers, name != NULL ? name : "");
    }
    return row;
}

/* NULL: it names no session, or there is no room. */
static struct pfl_alarm_row *find_row(struct pfl_alarm_rows *r, const json_t *alarm)
{
    const char *session = text_of(alarm, "session");

    if (!pfl_identity_is_name(session))
        return NULL;
    for (size_t i = 0; i < r->len; i++)
        if (strcmp(r->rows[i].session, session) == 0)
            return &r->rows[i];
    return r->len < PFL_ALARM_ROWS_MAX ? make_row(r, alarm) : NULL;
}

static void add_alarm(struct pfl_alarm_rows *r, const char *host, const json_t *alarm)
{
    struct pfl_alarm_row *row = find_row(r, alarm);
    const char *trigger = text_of(alarm, "trigger");
    const char *at = text_of(alarm, "host");

    if (row == NULL) {
        r->left_out++;
        return;
    }
    row->hosts_len++;
    row->states[state_of(alarm)]++;
    append(row->hosts, host);
    if (row->trigger[0] == '\0' && trigger[0] != '\0') {
        (void)snprintf(row->trigger, sizeof(row->trigger), "%s", trigger);
        (void)snprintf(row->at, sizeof(row->at), "%s", at[0] != '\0' ? at : host);
    }
    if (row->why_host[0] == '\0' && text_of(alarm, "why")[0] != '\0') {
        (void)snprintf(row->why_host, sizeof(row->why_host), "%s", host);
        (void)snprintf(row->why, sizeof(row->why), "%s", text_of(alarm, "why"));
    }
}

int pfl_alarm_rows_add(struct pfl_alarm_rows *self, const char *host, struct pfl_span answer)
{
    json_t *root = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    const json_t *list = json_object_get(root, "alarms");
    bool is_list = json_is_array(list);

    for (size_t i = 0; i < json_array_size(list); i++)
        add_alarm(self, host, json_array_get(list, i));
    json_decref(root);
    return is_list ? 0 : PFL_EPARSE;
}

bool pfl_alarm_rows_has(struct pfl_span answer, const char *session)
{
    json_t *root = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    const json_t *list = json_object_get(root, "alarms");
    bool is_there = false;

    for (size_t i = 0; i < json_array_size(list); i++)
        is_there |= strcmp(text_of(json_array_get(list, i), "session"), session) == 0;
    json_decref(root);
    return is_there;
}
