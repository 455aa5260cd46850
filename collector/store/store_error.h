/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of a thread's last failure. */
#ifndef PFL_COLLECTOR_STORE_ERROR_H
#define PFL_COLLECTOR_STORE_ERROR_H

#define PFL_STORE_WHY_BYTES 320u

/* The last failure of this thread's calls, as a sentence. */
const char *pfl_store_get_error(void);
/* Notes the sentence of this thread's failure; returns `rc`. */
int pfl_store_fail(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Likewise, of errno: what a file's failure means to the caller. */
int pfl_store_fail_errno(const char *what, const char *key);

#endif
