#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hosts, operators and relays attack the collector and what it stores.
SEATS=collector exec "$(dirname "$0")/hostile_test.sh"
