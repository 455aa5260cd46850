/* SPDX-License-Identifier: Apache-2.0 */
/* Opens links of this machine in the user's browser, or says how to follow them. */
#ifndef PFL_CONSUMER_OPEN_LINK_H
#define PFL_CONSUMER_OPEN_LINK_H

#include <uv.h>

#include "consumer/cmd/args.h"
#include "consumer/open/browser.h"

#define PFL_OPEN_LINK_MAX       16u /* links */
#define PFL_OPEN_LINK_MAX_BYTES 1024u

struct pfl_open_link;

struct pfl_open_link_start { /* of a browser */
    uv_process_t process;
    struct pfl_open_link *link;
    bool is_open;
};

struct pfl_open_link {
    const struct pfl_args *args; /* borrowed */
    uv_loop_t *loop;             /* borrowed */
    struct pfl_browser_env env;
    enum pfl_browser_choice choice;
    struct pfl_open_link_start starts[PFL_OPEN_LINK_MAX];
    unsigned open;
    bool is_followed; /* the owner knows: how the browser's command ends does not matter */
    bool has_failed;  /* said once */
};

/* Chooses by options and environment. */
void pfl_open_link_init(struct pfl_open_link *self, const struct pfl_args *args, uv_loop_t *loop);
/* What to do with the links that are printed next, on stderr. `port`: where they lead. */
void pfl_open_link_say(const struct pfl_open_link *self, uint16_t port);
/* Starts a browser for the link, if one is to be started; a failure is reported. At most
 * PFL_OPEN_LINK_MAX times. */
void pfl_open_link_start(struct pfl_open_link *self, size_t link, const char *url);
/* Browsers live on. The handles are closed when `open` is 0. */
void pfl_open_link_close(struct pfl_open_link *self);

#endif
