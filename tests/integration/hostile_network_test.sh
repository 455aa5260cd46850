#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Strangers, hosts and operators attack the relay and each other.
SEATS=network exec "$(dirname "$0")/hostile_test.sh"
