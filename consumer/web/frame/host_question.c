/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to hosts: see host_question.h. Happy path: one request to each; what it says is kept
 * with its row. Failures: a host that does not answer has its reason. Limits: the pages' number of
 * questions, the connection's of streams.
 */
#include "consumer/web/frame/host_question.h"

#include <stdio.h>

#include "base/mem.h"
#include "consumer/host/host_state.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/frame/web_impl.h"

static void take_answer(struct pfl_web *w, const struct pfl_fan_out *fan_out, size_t i)
{
    struct pfl_host_state state = pfl_host_state_get(fan_out, i);
    const struct pfl_host_spec *spec = pfl_fan_out_get_host(fan_out, i)->spec;
    struct pfl_host_facts facts = {.why = ""};

    (void)snprintf(facts.why, sizeof(facts.why), "%s", state.why);
    if (facts.why[0] == '\0' && pfl_host_facts_parse(state.state, &facts) != 0)
        (void)snprintf(facts.why, sizeof(facts.why), "its service state is malformed");
    facts.asked_ms = pfl_web_get_now_ms(w);
    pfl_host_rows_note(w->hosts, spec->name[0] != '\0' ? spec->name : spec->text, &facts);
}

void pfl_host_question_take(struct pfl_host_question *self)
{
    for (size_t i = 0; self->on_ready == NULL && i < pfl_host_question_get_len(self); i++) {
        const struct pfl_fan_out_host *host = pfl_fan_out_get_host(self->fan_out, i);

        if (host->is_done || host->conn == NULL) /* a connection that ended is not done */
            take_answer(self->visit->web, self->fan_out, i);
    }
}

static void on_question_over(void *user)
{
    struct pfl_host_question *q = user;

    q->is_open = false;
    q->visit->web->questions--;
    pfl_host_question_take(q);
    if (q->visit->exchange != NULL)
        q->on_over(q->visit);
    pfl_web_visit_release(q->visit);
}

void pfl_host_question_open(struct pfl_host_question *self, struct pfl_web_visit *visit,
                            struct pfl_host_spec *specs, size_t specs_len,
                            void (*on_over)(struct pfl_web_visit *visit))
{
    struct pfl_web *w = visit->web;
    struct pfl_fan_out_conf conf = {
        .conn = w->conf.conn,
        .specs = specs,
        .specs_len = specs_len,
        .timeout_ms = w->conf.timeout_ms,
        .max_bytes = PFL_HOST_QUESTION_MAX_BYTES,
        .on_ready = self->on_ready != NULL ? self->on_ready : pfl_host_state_on_ready_for_figures,
        .on_over = on_question_over,
        .user = self};

    self->visit = visit;
    self->specs = specs;
    self->on_over = on_over;
    if (specs != NULL && specs_len == 0)
        self->why = "No host is connected.";
    else if (w->questions >= PFL_WEB_MAX_QUESTIONS)
        self->why = "Too many questions to hosts are under way: try again in a moment.";
    else if (specs == NULL || pfl_fan_out_open(&conf, &self->fan_out) != 0)
        self->why = "Out of memory.";
    if (self->why != NULL)
        return;
    self->is_open = true;
    w->questions++;
    pfl_web_visit_hold(visit);
}

void pfl_host_question_open_all(struct pfl_host_question *self, struct pfl_web_visit *visit,
                                size_t max, void (*on_over)(struct pfl_web_visit *visit))
{
    struct pfl_host_rows *hosts = visit->web->hosts;
    struct pfl_host_spec *specs = pfl_mem_calloc(max, sizeof(*specs));
    struct pfl_host_row row;
    size_t len = 0;

    for (size_t i = 0; specs != NULL && len < max && i < pfl_host_rows_get_len(hosts); i++) {
        pfl_host_rows_get_row(hosts, i, &row);
        if (!row.has_relay || row.relay.is_connected)
            pfl_host_question_set_spec(&row, &specs[len++]);
    }
    pfl_host_question_open(self, visit, specs, len, on_over);
}

size_t pfl_host_question_get_len(const struct pfl_host_question *self)
{
    return self->fan_out != NULL ? pfl_fan_out_get_len(self->fan_out) : 0;
}

void pfl_host_question_abort(struct pfl_host_question *self)
{
    if (self->is_open)
        pfl_fan_out_abort(self->fan_out, "perfleet ui ends");
}

void pfl_host_question_fini(struct pfl_host_question *self)
{
    pfl_fan_out_free(self->fan_out);
    pfl_mem_free(self->specs);
}

void pfl_host_question_set_spec(const struct pfl_host_row *row, struct pfl_host_spec *spec)
{
    if (row->spec != NULL)
        *spec = *row->spec;
    else
        pfl_host_spec_set_tunnel(spec, row->name);
}
