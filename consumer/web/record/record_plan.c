/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Record page's form, checked: see record_plan.h.
 *
 * Happy path: the preset's or the pasted text is parsed and prepared as for `perfleet record`; the
 * selection is tried on each host. Failures: a sentence for each field that is wrong, as the
 * command says it. Ownership: the prepared config. Limits: those of config.h, and of the header.
 */
#include "consumer/web/record/record_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/config/duration.h"
#include "consumer/config/preset.h"

#define CONFIG_NAME "config"

/* ---- the hosts ---- */

static bool is_meant(const struct pfl_host_row *row, const char *select)
{
    struct pfl_inventory_host named = {.name = row->title, .address = "", .version = "", .tls = ""};

    return pfl_inventory_is_selected(row->has_relay ? &row->relay : &named, select);
}

static void set_spec(const struct pfl_host_row *row, struct pfl_host_spec *spec)
{
    if (row->spec != NULL)
        *spec = *row->spec;
    else
        pfl_host_spec_set_tunnel(spec, row->name);
}

static void take_host(struct pfl_record_hosts *hosts, const struct pfl_host_row *row, size_t number,
                      struct pfl_host_spec *specs)
{
    if (row->has_relay && pfl_inventory_has_left(&row->relay)) {
        hosts->left++;
        return;
    }
    hosts->away += row->has_relay && !row->relay.is_connected;
    if (hosts->found < PFL_RECORD_PLAN_NAMED)
        hosts->named[hosts->found] = number;
    if (specs != NULL && hosts->found < PFL_RECORD_PLAN_MAX_HOSTS)
        set_spec(row, &specs[hosts->found]);
    hosts->found++;
}

static void judge_hosts(struct pfl_record_hosts *hosts, const char *select)
{
    if (hosts->found > PFL_RECORD_PLAN_MAX_HOSTS)
        (void)snprintf(hosts->why, sizeof(hosts->why),
                       "%zu hosts match, and one recording has at most %u: narrow the selection",
                       hosts->found, PFL_RECORD_PLAN_MAX_HOSTS);
    else if (hosts->found == 0 && hosts->left != 0)
        (void)snprintf(hosts->why, sizeof(hosts->why),
                       "all %zu hosts that match left the relay more than %u s ago", hosts->left,
                       PFL_INVENTORY_LEFT_S);
    else if (hosts->found == 0)
        (void)snprintf(hosts->why, sizeof(hosts->why), "none of the %zu hosts matches %s",
                       hosts->all, pfl_log_quote_str(select));
}

int pfl_record_hosts_choose(const struct pfl_host_rows *rows, const char *select,
                            struct pfl_record_hosts *ret_hosts, struct pfl_host_spec **ret_specs)
{
    size_t len = pfl_host_rows_get_len(rows);
    struct pfl_record_hosts *h = ret_hosts;
    struct pfl_host_spec *specs = NULL;
    struct pfl_host_row row;

    *h = (struct pfl_record_hosts){.all = len};
    if (ret_specs != NULL)
        *ret_specs = NULL;
    if (select[strspn(select, " ")] == '\0') {
        (void)snprintf(h->why, sizeof(h->why), "choose hosts: * means all %zu", len);
        return 0;
    }
    if (pfl_selection_check(select, h->why, sizeof(h->why)) != 0)
        return 0;
    if (ret_specs != NULL) {
        specs = pfl_mem_calloc(
            len < PFL_RECORD_PLAN_MAX_HOSTS ? len + 1 : PFL_RECORD_PLAN_MAX_HOSTS, sizeof(*specs));
        if (specs == NULL)
            return PFL_ENOMEM;
    }
    for (size_t i = 0; i < len; i++) {
        pfl_host_rows_get_row(rows, i, &row);
        if (is_meant(&row, select))
            take_host(h, &row, i, specs);
    }
    judge_hosts(h, select);
    if (specs != NULL && h->why[0] == '\0')
        *ret_specs = specs;
    else
        pfl_mem_free(specs);
    return 0;
}

/* ---- the config ---- */

void pfl_record_form_join_lines(char *text)
{
    char *out = text;

    for (; *text != '\0'; text++)
        if (text[0] != '\r' || text[1] != '\n')
            *out++ = *text;
    *out = '\0';
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* The text that counts; false: config_why says which to give. */
static bool find_text(struct pfl_record_plan *p, const struct pfl_record_form *form,
                      struct pfl_span *ret_text, const char **ret_name)
{
    const struct pfl_preset *preset = pfl_preset_find(form->preset);
    bool has_config = !is_blank(form->config);
    const char *why = "";

    if (form->preset[0] != '\0' && has_config)
        why = "a preset and a config are given: choose \"the config below\", or empty the config";
    else if (form->preset[0] == '\0' && !has_config)
        why = "choose a preset, or give a config";
    else if (form->preset[0] != '\0' && preset == NULL)
        why = "there is no such preset";
    (void)snprintf(p->config_why, sizeof(p->config_why), "%s", why);
    if (why[0] != '\0')
        return false;
    *ret_name = preset != NULL ? preset->name : CONFIG_NAME;
    *ret_text = preset != NULL ? pfl_span_of(preset->text, preset->text_len)
                               : pfl_span_of(form->config, strlen(form->config));
    return true;
}

static int prepare(struct pfl_record_plan *p, struct pfl_span text, const char *name,
                   uint32_t duration_ms)
{
    const struct pfl_config_overrides overrides = {.duration_ms = duration_ms};
    struct pfl_config_why why = {""};
    struct pfl_buf parsed;
    int rc;

    pfl_buf_init(&parsed, PFL_CONFIG_MAX_BYTES);
    rc = pfl_config_read(text, name, &parsed, &why);
    if (rc == 0) {
        rc = pfl_config_prepare(pfl_buf_get(&parsed), &overrides, &p->config, &p->info, &why);
        if (rc != 0 && rc != PFL_ENOMEM)
            (void)snprintf(p->config_why, sizeof(p->config_why), "%s: %s", name,
                           why.text[0] != '\0' ? why.text : pfl_err_str(rc));
    } else if (rc != PFL_ENOMEM) {
        (void)snprintf(p->config_why, sizeof(p->config_why), "%s",
                       why.text[0] != '\0' ? why.text : pfl_err_str(rc));
    }
    pfl_buf_fini(&parsed);
    return rc == PFL_ENOMEM ? rc : 0;
}

int pfl_record_plan_make(struct pfl_record_plan *self, const struct pfl_record_form *form)
{
    const char *name = "";
    struct pfl_span text;
    uint32_t duration_ms = 0;
    int rc;

    *self = (struct pfl_record_plan){.is_streamed = false};
    pfl_buf_init(&self->config, PFL_CONFIG_MAX_BYTES);
    if (!is_blank(form->duration) && !pfl_duration_parse(form->duration, &duration_ms))
        (void)snprintf(self->duration_why, sizeof(self->duration_why),
                       "%s is no duration: 10s, 500ms, 5m, 2h; at most a week",
                       pfl_log_quote_str(form->duration));
    if (!find_text(self, form, &text, &name))
        return 0;
    rc = prepare(self, text, name, duration_ms);
    if (rc == 0 && self->config_why[0] == '\0')
        self->is_streamed = pfl_config_needs_stream(&self->info);
    return rc;
}

void pfl_record_plan_fini(struct pfl_record_plan *self)
{
    pfl_buf_fini(&self->config);
}

bool pfl_record_plan_is_good(const struct pfl_record_plan *self)
{
    return self->config_why[0] == '\0' && self->duration_why[0] == '\0';
}

const char *pfl_record_plan_get_note(const struct pfl_record_plan *self, size_t n)
{
    bool is_long = pfl_config_is_long(&self->info);
    const struct {
        bool is_true;
        const char *text;
    } all[] = {
        {self->info.duration_ms == 0, "It records until you stop it."},
        {self->is_streamed, "The buffers are read into the file during the recording."},
        {is_long && !self->is_streamed && self->info.has_discard,
         "The buffers are read at the end: they keep the first part of the recording."},
        {is_long && !self->is_streamed && !self->info.has_discard,
         "The buffers are read at the end: they keep the last part of the recording."},
        {self->info.was_compressed,
         "The config's compression is left out: packets are merged one by one."},
        {self->info.loses_interned,
         "Track events go to a ring buffer without incremental_state_config { clear_period_ms: "
         "5000 }: once the ring is full, what it keeps may refer to names that it overwrote, and "
         "is lost."},
    };

    if (!pfl_record_plan_is_good(self))
        return NULL;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_true && n-- == 0)
            return all[i].text;
    return NULL;
}

/* ---- the command line ---- */

static void add_selection(const struct pfl_record_means *means, const char *select,
                          struct pfl_command_line *line)
{
    char both[2 * PFL_SELECTOR_MAX_BYTES + 2];

    (void)snprintf(both, sizeof(both), "%s%s%s", means->selection != NULL ? means->selection : "",
                   means->selection != NULL ? "," : "", select);
    pfl_command_line_option(line, "--select", both);
}

void pfl_record_plan_write_command(const struct pfl_record_form *form,
                                   const struct pfl_record_means *means,
                                   struct pfl_command_line *ret_line)
{
    pfl_command_line_begin(ret_line, "record");
    if (form->preset[0] != '\0')
        pfl_command_line_option(ret_line, "--preset", form->preset);
    else
        pfl_command_line_option(ret_line, "-c", "CONFIG.pbtx");
    pfl_command_line_option(ret_line, "--duration", form->duration);
    pfl_command_line_quoted(ret_line, means->options);
    for (size_t i = 0; means->has_names && i < means->specs_len; i++) {
        const struct pfl_host_spec *host = &means->specs[i];

        pfl_command_line_option(ret_line, "--host",
                                host->kind == PFL_HOST_TUNNEL ? host->name : host->text);
    }
    if (!means->has_names)
        add_selection(means, form->select, ret_line);
    pfl_command_line_option(ret_line, "-o", means->output);
}
