/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of the last changes, in a sentence each, for the page that a change leads to. The
 * page's address has the number alone. Pure.
 */
#ifndef PFL_CONSUMER_WEB_FRAME_NOTICES_H
#define PFL_CONSUMER_WEB_FRAME_NOTICES_H

#define PFL_NOTICES_KEPT      16u
#define PFL_NOTICES_MAX_BYTES 512u /* of one; the rest is cut */

struct pfl_notices {
    char text[PFL_NOTICES_KEPT][PFL_NOTICES_MAX_BYTES];
    unsigned count; /* of all so far: the number of the newest */
};

/* Its number, from 1 on. */
unsigned pfl_notices_add(struct pfl_notices *self, const char *text);
/* "" if it is not kept any more, or never was; borrowed until the next add. */
const char *pfl_notices_get(const struct pfl_notices *self, unsigned number);

#endif
