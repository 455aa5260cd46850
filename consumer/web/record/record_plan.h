/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the form of the Record page asks for: which hosts, which config, how long; checked, with the
 * place and the remedy of what is wrong; and the command line that does the same. Pure.
 */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORD_PLAN_H
#define PFL_CONSUMER_WEB_RECORD_RECORD_PLAN_H

#include "consumer/config/config.h"
#include "consumer/web/frame/host_rows.h"
#include "consumer/web/html/command_line.h"

#define PFL_RECORD_PLAN_MAX_HOSTS 1024u
#define PFL_RECORD_PLAN_NAMED     8u /* hosts that the page names */
#define PFL_RECORD_PLAN_WHY_BYTES 640u

/* As typed; borrowed from the form. */
struct pfl_record_form {
    const char *select;   /* of a relay's hosts, or of those that were named */
    const char *preset;   /* "": the config below */
    const char *config;   /* text */
    const char *duration; /* "": the config's */
};

/* Lines of a form's text end with CR LF; afterwards with LF. */
void pfl_record_form_join_lines(char *text);

/* The hosts that a selection means. */
struct pfl_record_hosts {
    size_t all;
    size_t found;                        /* that are recorded */
    size_t away;                         /* of those, without a connection now */
    size_t left;                         /* further ones, which left the relay, and are not asked */
    size_t named[PFL_RECORD_PLAN_NAMED]; /* rows of the first ones found */
    char why[PFL_RECORD_PLAN_WHY_BYTES]; /* "" or what is wrong */
};

/* With `ret_specs`, which is the caller's to free with pfl_mem_free: the found ones; NULL if there
 * are none, or too many. PFL_ENOMEM. */
PFL_MUST_USE int pfl_record_hosts_choose(const struct pfl_host_rows *rows, const char *select,
                                         struct pfl_record_hosts *ret_hosts,
                                         struct pfl_host_spec **ret_specs);

struct pfl_record_plan {
    struct pfl_buf config; /* owned: as it goes to the hosts */
    struct pfl_config_info info;
    bool is_streamed;
    char config_why[PFL_RECORD_PLAN_WHY_BYTES]; /* "" or what is wrong */
    char duration_why[PFL_RECORD_PLAN_WHY_BYTES];
};

/* PFL_ENOMEM. fini in any case. */
PFL_MUST_USE int pfl_record_plan_make(struct pfl_record_plan *self,
                                      const struct pfl_record_form *form);
void pfl_record_plan_fini(struct pfl_record_plan *self);
bool pfl_record_plan_is_good(const struct pfl_record_plan *self);
/* What a person should know before the start: each a static sentence; NULL past the last. */
const char *pfl_record_plan_get_note(const struct pfl_record_plan *self, size_t n);

/* What the command line of the page's program has. */
struct pfl_record_means {
    const char *options;   /* " --relay ...": of the connection, quoted */
    const char *selection; /* the program's own; NULL: none */
    bool has_names;        /* hosts were named, with or without relay: they are listed */
    const struct pfl_host_spec *specs; /* the chosen ones, for that */
    size_t specs_len;
    const char *output; /* the file's name */
};

/* `perfleet record`, for hosts that were chosen by `select`, or those of `means`. */
void pfl_record_plan_write_command(const struct pfl_record_form *form,
                                   const struct pfl_record_means *means,
                                   struct pfl_command_line *ret_line);

#endif
