/* SPDX-License-Identifier: Apache-2.0 */
/* Is a browser started for a link, which one, and what is said otherwise. Pure. */
#ifndef PFL_CONSUMER_OPEN_BROWSER_H
#define PFL_CONSUMER_OPEN_BROWSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PFL_BROWSER_MAX_WORDS 16u
#define PFL_BROWSER_MAX_BYTES 1024u

/* Variables of the environment; NULL: not set. */
struct pfl_browser_env {
    const char *browser; /* BROWSER */
    const char *display;
    const char *wayland_display;
    const char *ssh_connection;
    const char *user; /* the account's name */
    bool is_root;
    bool is_refused; /* --no-browser */
};

enum pfl_browser_choice {
    PFL_BROWSER_START,         /* what BROWSER says, or xdg-open */
    PFL_BROWSER_START_AS_ROOT, /* what BROWSER says, and the user is root */
    PFL_BROWSER_NOT_WANTED,
    PFL_BROWSER_SSH,        /* the browser is at the other end */
    PFL_BROWSER_ROOT,       /* none is started as root */
    PFL_BROWSER_NO_DISPLAY, /* neither X11 nor Wayland */
};

enum pfl_browser_choice pfl_browser_choose(const struct pfl_browser_env *env);

/* A command line: words point into text. */
struct pfl_browser_command {
    char text[PFL_BROWSER_MAX_BYTES];
    char *words[PFL_BROWSER_MAX_WORDS + 1]; /* ends with NULL */
};

/* For a link: xdg-open, or the first command of BROWSER (commands are separated by colons; %s
 * stands for the link, which otherwise is the last word). False: it does not fit. */
bool pfl_browser_make_command(const struct pfl_browser_env *env, const char *link,
                              struct pfl_browser_command *ret_command);

/* What to do at the machine that has the browser, if it is another one: lines of text. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_browser_add_ssh_hint(const struct pfl_browser_env *env, uint16_t port,
                                          struct pfl_buf *out);

#endif
