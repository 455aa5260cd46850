#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who sits beside the service on its host attacks it: tests/hostile, which prints the claims.
# SEATS: those in a fleet instead (hostile_network_test.sh, hostile_collector_test.sh).
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "$ROOT/tests/hostile/run" --build "${PFL_BUILD:-$ROOT/build/release}" --seats "${SEATS:-host}" ${PFL_SANITIZE:+--sanitized}
