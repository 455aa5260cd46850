/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a certificate or a revocation list ends so soon that the log says it. A core. */
#ifndef PFL_RELAY_ACCEPT_EXPIRY_H
#define PFL_RELAY_ACCEPT_EXPIRY_H

#include <stdint.h>

#define PFL_EXPIRY_SOON_DAYS 14

enum pfl_expiry_state {
    PFL_EXPIRY_LATER,
    PFL_EXPIRY_SOON,
    PFL_EXPIRY_PAST,
};

/* Both are UNIX times. *ret_days: whole days that are left, negative of one that has ended. */
enum pfl_expiry_state pfl_expiry_judge(int64_t end_s, int64_t now_s, int64_t *ret_days);

#endif
