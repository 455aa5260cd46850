/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoder of figures: see metrics.h.
 *
 * Happy path: "# HELP", "# TYPE", then rows: name, labels in braces, value. Whole numbers are
 * written as such up to 2^53, others with 17 digits, so that nothing is lost. Failures: kept in
 * `err`; later calls do nothing. Ownership: the buffer. Limits: the buffer's maximum.
 */
#include "base/metrics.h"

#include <math.h>
#include <stdio.h>

#define WHOLE_MAX 9007199254740992.0 /* 2^53: whole numbers up to here are exact */

void pfl_metrics_init(struct pfl_metrics *self, size_t max_bytes)
{
    *self = (struct pfl_metrics){.err = 0};
    pfl_buf_init(&self->text, max_bytes);
}

void pfl_metrics_fini(struct pfl_metrics *self)
{
    pfl_buf_fini(&self->text);
}

static void put(struct pfl_metrics *self, const char *text)
{
    if (self->err == 0)
        self->err = pfl_buf_append(&self->text, text, strlen(text));
}

static void put_byte(struct pfl_metrics *self, char c)
{
    if (self->err == 0)
        self->err = pfl_buf_append(&self->text, &c, 1);
}

static void put_value(struct pfl_metrics *self, double value)
{
    char number[40];

    if (isnan(value))
        (void)snprintf(number, sizeof(number), "NaN");
    else if (isinf(value))
        (void)snprintf(number, sizeof(number), value > 0 ? "+Inf" : "-Inf");
    else if (value >= -WHOLE_MAX && value <= WHOLE_MAX && value == (double)(int64_t)value)
        (void)snprintf(number, sizeof(number), "%.0f", value);
    else
        (void)snprintf(number, sizeof(number), "%.17g", value);
    put(self, number);
}

static void put_escaped(struct pfl_metrics *self, const char *text_untrusted)
{
    for (const char *c = text_untrusted; *c != '\0' && self->err == 0; c++) {
        if (*c == '\n')
            put(self, "\\n");
        else if (*c == '\\' || *c == '"') {
            put_byte(self, '\\');
            put_byte(self, *c);
        } else {
            put_byte(self, *c >= ' ' && *c <= '~' ? *c : '?');
        }
    }
}

void pfl_metrics_family(struct pfl_metrics *self, enum pfl_metrics_type type, const char *name,
                        const char *help)
{
    self->family = name;
    put(self, "# HELP ");
    put(self, name);
    put_byte(self, ' ');
    put(self, help);
    put(self, "\n# TYPE ");
    put(self, name);
    put(self, type == PFL_METRICS_COUNTER ? " counter\n" : " gauge\n");
}

void pfl_metrics_row(struct pfl_metrics *self, const struct pfl_metrics_label *labels,
                     size_t labels_len, double value)
{
    put(self, self->family);
    for (size_t i = 0; i < labels_len; i++) {
        put_byte(self, i == 0 ? '{' : ',');
        put(self, labels[i].name);
        put(self, "=\"");
        put_escaped(self, labels[i].value_untrusted);
        put_byte(self, '"');
    }
    if (labels_len != 0)
        put_byte(self, '}');
    put_byte(self, ' ');
    put_value(self, value);
    put_byte(self, '\n');
}

void pfl_metrics_single(struct pfl_metrics *self, enum pfl_metrics_type type, const char *name,
                        const char *help, double value)
{
    pfl_metrics_family(self, type, name, help);
    pfl_metrics_row(self, NULL, 0, value);
}

void pfl_metrics_append(struct pfl_metrics *self, const struct pfl_metrics *families)
{
    struct pfl_span text = pfl_buf_get(&families->text);

    if (self->err == 0)
        self->err = families->err;
    if (self->err == 0)
        self->err = pfl_buf_append(&self->text, text.data, text.len);
}

int pfl_metrics_get(const struct pfl_metrics *self, struct pfl_span *ret_text)
{
    if (self->err != 0)
        return self->err;
    *ret_text = pfl_buf_get(&self->text);
    return 0;
}
