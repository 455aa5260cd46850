/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet ask`: what is asked, in which form; the rest is in ask_program.h and ask_run.h. Happy
 * path: one of -q, -f, --ready and --summary gives the question, the program is found, the run
 * begins. Failures: contradictions, no question, no program; each with its remedy. Limits:
 * QUESTION_MAX_BYTES.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "consumer/ask/ready_question.h"
#include "consumer/cmd/ask_program.h"
#include "consumer/cmd/ask_run.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define QUESTION_MAX_BYTES (1u << 20)

/* ---- the question ---- */

static void list_ready(void)
{
    for (size_t i = 0; i < pfl_ready_questions_len; i++) {
        struct pfl_span summary = pfl_ready_question_get_summary(&pfl_ready_questions[i]);

        printf("%-16s %.*s\n", pfl_ready_questions[i].name, (int)summary.len,
               (const char *)summary.data);
    }
}

static bool take_ready(const char *name, struct pfl_buf *out)
{
    const struct pfl_ready_question *ready = pfl_ready_question_find(name);

    if (ready == NULL) {
        pfl_cmd_error("there is no ready question %s; see perfleet ask --ready list",
                      pfl_log_quote_str(name));
        return false;
    }
    return pfl_buf_append(out, ready->text, ready->text_len) == 0;
}

static bool take_file(const char *option, const char *path, struct pfl_buf *out)
{
    if (pfl_cmd_read_file(path, out))
        return true;
    pfl_cmd_error("%s %s: %s", option, pfl_log_quote_str(path), strerror(errno));
    return false;
}

static bool take_question(const struct pfl_ask_args *ask, struct pfl_buf *out)
{
    int given =
        (ask->query != NULL) + (ask->file != NULL) + (ask->ready != NULL) + (ask->summary != NULL);
    bool is_taken;

    if (given != 1) {
        pfl_cmd_error("ask: give one of -q SQL, -f FILE, --ready NAME and --summary SPEC");
        return false;
    }
    if (ask->query != NULL) {
        is_taken = pfl_buf_append(out, ask->query, strlen(ask->query)) == 0;
        if (!is_taken)
            pfl_cmd_error("-q: more than 1 MiB; use -f FILE, which may have as much");
    } else if (ask->ready != NULL) {
        is_taken = take_ready(ask->ready, out);
    } else {
        is_taken = ask->file != NULL ? take_file("-f", ask->file, out)
                                     : take_file("--summary", ask->summary, out);
    }
    if (is_taken && out->len == 0) {
        pfl_cmd_error("ask: the question is empty");
        return false;
    }
    return is_taken;
}

/* Bytes that no text has. */
static bool is_binary(struct pfl_span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < ' ' && strchr("\t\n\r", text.data[i]) == NULL)
            return true;
    return text.len != 0 && memchr(text.data, '\0', text.len) != NULL;
}

/* ---- the form ---- */

static bool has_suffix(const char *path, const char *suffix)
{
    size_t len = path != NULL ? strlen(path) : 0;

    return len > strlen(suffix) && strcasecmp(path + len - strlen(suffix), suffix) == 0;
}

static bool choose_form(const struct pfl_args *args, struct pfl_ask_plan *plan)
{
    const char *path = args->output;

    plan->is_sqlite = has_suffix(path, ".sqlite") || has_suffix(path, ".db");
    if ((args->is_json && args->ask.is_csv) ||
        (plan->is_sqlite && (args->is_json || args->ask.is_csv))) {
        pfl_cmd_error("ask: give one of --json, --csv and -o FILE.sqlite");
        return false;
    }
    plan->form = args->is_json                                             ? PFL_ANSWER_JSON
                 : args->ask.is_csv                                        ? PFL_ANSWER_CSV
                 : has_suffix(path, ".csv")                                ? PFL_ANSWER_CSV
                 : has_suffix(path, ".json") || has_suffix(path, ".jsonl") ? PFL_ANSWER_JSON
                 : plan->is_summary                                        ? PFL_ANSWER_SUMMARY
                                                                           : PFL_ANSWER_TEXT;
    return true;
}

static int run(struct pfl_args *args, struct pfl_ask_plan *plan)
{
    if (!choose_form(args, plan))
        return PFL_EXIT_USAGE;
    if (!pfl_ask_program_find(&args->ask, &plan->program)) {
        pfl_cmd_error("%s", plan->program.why);
        return PFL_EXIT_NOTHING;
    }
    if (plan->program.missing != NULL)
        pfl_cmd_error("this kernel has no %s: the Trace Processor is confined without",
                      plan->program.missing);
    return pfl_ask_run(plan);
}

int pfl_cmd_ask_traces(struct pfl_args *args)
{
    struct pfl_ask_plan plan = {.args = args, .is_summary = args->ask.summary != NULL};
    struct pfl_buf question;
    int code = PFL_EXIT_USAGE;

    if (args->ask.ready != NULL && strcmp(args->ask.ready, "list") == 0) {
        list_ready();
        return PFL_EXIT_OK;
    }
    pfl_text_init_json();
    pfl_buf_init(&question, QUESTION_MAX_BYTES);
    if (take_question(&args->ask, &question)) {
        plan.question = pfl_buf_get(&question);
        plan.is_binary = plan.is_summary && is_binary(plan.question);
        code = run(args, &plan);
    }
    pfl_buf_fini(&question);
    return code;
}
