/* SPDX-License-Identifier: Apache-2.0 */
/* The policy's file. */
#ifndef PFL_RELAY_POLICY_POLICY_FILE_PORT_H
#define PFL_RELAY_POLICY_POLICY_FILE_PORT_H

#include "proto/gate/policy.h"

/* `path` NULL: returns NULL, everything is allowed. Logs failures. PFL_EIO, PFL_EPARSE, PFL_ELIMIT,
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_policy_file_load(const char *path, struct pfl_policy **ret_policy);

/* Checks the file for a person: reports success on stdout, or on stderr FILE:LINE: reason. */
PFL_MUST_USE bool pfl_policy_file_check(const char *path);

#endif
