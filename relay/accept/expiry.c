/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a certificate: see expiry.h. Owns nothing; cannot fail. */
#include "relay/accept/expiry.h"

#define SECONDS_PER_DAY 86400

enum pfl_expiry_state pfl_expiry_judge(int64_t end_s, int64_t now_s, int64_t *ret_days)
{
    int64_t left_s = end_s - now_s;

    *ret_days = left_s / SECONDS_PER_DAY;
    if (left_s < 0)
        return PFL_EXPIRY_PAST;
    return left_s < (int64_t)PFL_EXPIRY_SOON_DAYS * SECONDS_PER_DAY ? PFL_EXPIRY_SOON
                                                                    : PFL_EXPIRY_LATER;
}
