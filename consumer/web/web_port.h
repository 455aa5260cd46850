/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of `perfleet ui` on 127.0.0.1: routes, and what they ask relay, hosts and collector. */
#ifndef PFL_CONSUMER_WEB_WEB_PORT_H
#define PFL_CONSUMER_WEB_WEB_PORT_H

#include "consumer/web/frame/web_conf.h"

/* PFL_EIO (the port is taken; logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_web_open(const struct pfl_web_conf *conf, struct pfl_web **ret_web);
/* "http://127.0.0.1:PORT/enter?token=...": good for one browser. */
void pfl_web_get_link(const struct pfl_web *self, char *ret_link, size_t link_len);
/* After each turn of the loop. */
void pfl_web_step(struct pfl_web *self);
/* Asynchronous, idempotent. */
void pfl_web_close(struct pfl_web *self);

#endif
