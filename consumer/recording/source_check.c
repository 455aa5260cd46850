/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks data sources. Happy path: every host reported at its setup which data sources of the
 * config it has (sources.h); together they have all. A data source that no host has is a warning,
 * because a producer may come later. If no host has any data source of the config, and a name is
 * probably misspelt, the recording would be empty, and is refused. Hosts without a report are not
 * checked.
 */
#include "consumer/recording/source_check.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define NAMED_MAX 8u /* hosts, or data sources, that one line names */

/* The data sources of all hosts together. */
struct offered {
    size_t hosts; /* that answered */
    uint32_t wanted;
    uint64_t any;                              /* by one host at least */
    const struct pfl_registered_sources *near; /* the closest suggestion; NULL: none */
};

/* A list of names with an end. */
struct words {
    char text[512];
    size_t len;
    size_t count;
};

static void add_word(struct words *w, const char *word)
{
    int n = 0;

    if (w->count++ < NAMED_MAX)
        n = snprintf(w->text + w->len, sizeof(w->text) - w->len, "%s%s", w->len != 0 ? ", " : "",
                     word);
    if (n > 0 && (size_t)n < sizeof(w->text) - w->len)
        w->len += (size_t)n;
    else
        w->text[w->len] = '\0';
}

static void end_words(struct words *w)
{
    if (w->count > NAMED_MAX)
        (void)snprintf(w->text + w->len, sizeof(w->text) - w->len, " and %zu others",
                       w->count - NAMED_MAX);
}

static const struct pfl_registered_sources *sources_of(const struct pfl_recording *r, size_t host,
                                                       struct pfl_recording_host *ret_host)
{
    pfl_recording_get_host(r, host, ret_host);
    return ret_host->state == PFL_HOST_READY && ret_host->report->sources.is_known
               ? &ret_host->report->sources
               : NULL;
}

static struct offered sum_up(const struct pfl_recording *r, struct pfl_span config)
{
    struct offered all = {.wanted = pfl_registered_sources_count(config)};

    for (size_t i = 0; i < pfl_recording_get_hosts_len(r); i++) {
        struct pfl_recording_host h;
        const struct pfl_registered_sources *o = sources_of(r, i, &h);

        if (o == NULL)
            continue;
        all.hosts++;
        all.any |= o->registered;
        if (o->near[0] != '\0' && (all.near == NULL || o->near_distance < all.near->near_distance))
            all.near = o;
    }
    if (all.near != NULL && (all.any >> all.near->near_of & 1) != 0)
        all.near = NULL;
    return all;
}

static struct words list_missing(const struct offered *all, struct pfl_span config)
{
    struct words missing = {.len = 0};

    for (uint32_t i = 0; i < all->wanted; i++) {
        struct pfl_span name = pfl_registered_sources_get_name(config, i);

        if ((all->any >> i & 1) == 0)
            add_word(&missing, pfl_log_quote((const char *)name.data, name.len));
    }
    end_words(&missing);
    return missing;
}

/* Hosts without any of the data sources, if others have some. */
static void warn_of_hosts(const struct pfl_recording *r, const struct pfl_source_check_conf *conf)
{
    struct words bare = {.len = 0};
    char text[PFL_SOURCE_CHECK_WHY_BYTES];

    for (size_t i = 0; i < pfl_recording_get_hosts_len(r); i++) {
        struct pfl_recording_host h;
        const struct pfl_registered_sources *o = sources_of(r, i, &h);

        if (o != NULL && o->registered == 0)
            add_word(&bare, h.report->name[0] != '\0' ? h.report->name : h.spec->text);
    }
    end_words(&bare);
    if (bare.count == 0)
        return;
    (void)snprintf(text, sizeof(text),
                   "%s: none of the config's data sources is there; is the program "
                   "(perfleet-probes, the app) running? See perfleet doctor",
                   bare.text);
    conf->on_warning(conf->user, text);
}

bool pfl_source_check_passes(const struct pfl_recording *recording,
                             const struct pfl_source_check_conf *conf,
                             char ret_why[PFL_SOURCE_CHECK_WHY_BYTES])
{
    struct offered all = sum_up(recording, conf->trace_config);
    struct words missing = list_missing(&all, conf->trace_config);
    char meant[PFL_REGISTERED_SOURCES_NAME_BYTES + 32] = "";
    char text[PFL_SOURCE_CHECK_WHY_BYTES];

    if (all.hosts == 0 || all.wanted == 0)
        return true;
    if (all.any != 0)
        warn_of_hosts(recording, conf);
    if (missing.count == 0)
        return true;
    if (all.near != NULL)
        (void)snprintf(meant, sizeof(meant), "; did you mean %s?",
                       pfl_log_quote_str(all.near->near));
    if (conf->may_refuse && all.any == 0 && all.near != NULL &&
        all.near->near_distance <= PFL_REGISTERED_SOURCES_SLIP) {
        (void)snprintf(ret_why, PFL_SOURCE_CHECK_WHY_BYTES, "no host offers %s%s", missing.text,
                       meant);
        return false;
    }
    (void)snprintf(text, sizeof(text), "no host offers %s%s%s", missing.text, meant,
                   meant[0] != '\0' ? ""
                                    : ": is the program (perfleet-probes, the app) running? It is "
                                      "recorded if it starts later");
    conf->on_warning(conf->user, text);
    return true;
}
