/* SPDX-License-Identifier: Apache-2.0 */
/* The question before a change: see running_confirm.h. */
#include "consumer/web/running/running_confirm.h"

void pfl_running_confirm_begin_form(enum pfl_running_object object, const char *name,
                                    const struct pfl_layout *layout, struct pfl_html *h)
{
    switch (object) {
    case PFL_RUNNING_SESSION:
        pfl_layout_form(layout, h, "/running/session");
        pfl_layout_add_hidden(h, "session", name);
        break;
    case PFL_RUNNING_ORDER:
        pfl_layout_form(layout, h, "/running/order");
        pfl_layout_add_hidden(h, "order", name);
        break;
    case PFL_RUNNING_ALARM:
        pfl_layout_form(layout, h, "/running/disarm");
        pfl_layout_add_hidden(h, "session", name);
        break;
    }
}

void pfl_running_confirm_add_button(struct pfl_html *h, const char *action, const char *text,
                                    const char *name)
{
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    pfl_html_attr(h, "name", "do");
    pfl_html_attr(h, "value", action);
    pfl_html_attrf(h, "aria-label", "%s: %s", text, name);
    pfl_html_text(h, text);
    pfl_html_close(h);
}

void pfl_running_confirm_write(const struct pfl_running_confirm *confirm,
                               const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", confirm->title);
    pfl_html_leaf(h, "p", confirm->text);
    pfl_running_confirm_begin_form(confirm->object, confirm->name, layout, h);
    pfl_layout_add_hidden(h, "do", confirm->action);
    pfl_layout_add_hidden(h, "sure", "1");
    pfl_layout_add_submit(h, confirm->button);
    pfl_html_open(h, "a");
    pfl_html_href_page(h, "/running");
    pfl_html_text(h, "Back");
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_layout_end(layout, h);
}
