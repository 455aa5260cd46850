/* SPDX-License-Identifier: Apache-2.0 */
/* The page that asks before something that runs is changed, and shows the command; and the buttons
 * that lead to it. Pure. */
#ifndef PFL_CONSUMER_WEB_RUNNING_RUNNING_CONFIRM_H
#define PFL_CONSUMER_WEB_RUNNING_RUNNING_CONFIRM_H

#include "consumer/web/html/layout.h"

/* What is changed, and so which page takes the change. */
enum pfl_running_object {
    PFL_RUNNING_SESSION, /* POST /running/session, field `session` */
    PFL_RUNNING_ORDER,   /* POST /running/order, field `order` */
    PFL_RUNNING_ALARM,   /* POST /running/disarm, field `session` */
};

struct pfl_running_confirm {
    enum pfl_running_object object;
    const char *name;   /* of it */
    const char *action; /* the field `do` */
    const char *title;  /* "Stop flight on 2 hosts?" */
    const char *text;   /* what it means */
    const char *button;
};

/* Its form has the field `sure` besides. */
void pfl_running_confirm_write(const struct pfl_running_confirm *confirm,
                               const struct pfl_layout *layout, struct pfl_html *h);

/* A form with buttons for one object: begin, add, close. */
void pfl_running_confirm_begin_form(enum pfl_running_object object, const char *name,
                                    const struct pfl_layout *layout, struct pfl_html *h);
void pfl_running_confirm_add_button(struct pfl_html *h, const char *action, const char *text,
                                    const char *name);

#endif
