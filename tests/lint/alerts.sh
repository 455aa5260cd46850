#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when Prometheus' own tool does not take deploy/prometheus, or a rule fires, or does not, where its test says otherwise.
set -euo pipefail
PFL_BUILD=$1
. "$(dirname "$0")/../support/packages.sh"
cd "$(dirname "$0")/../../deploy/prometheus"
package=prometheus
! apt-cache show promtool >/dev/null 2>&1 || package=promtool # of its own since Debian 13
PROMTOOL=$(package_program $package /usr/bin/promtool) || { echo "alerts: skipped: there is no promtool"; exit 77; }
"$PROMTOOL" check rules alerts.yaml
"$PROMTOOL" test rules alerts_test.yaml
# Every rule is in the test, or it proves nothing.
sed -n 's/.*- alert: //p' alerts.yaml | while read -r name; do
    grep -q "alertname=\"$name\"" alerts_test.yaml || { echo "alerts: $name has no test"; exit 1; }
done
