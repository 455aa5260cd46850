#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails when Prometheus' own tool does not take deploy/prometheus, or a rule fires, or does not, where its test says otherwise.
set -euo pipefail
cd "$(dirname "$0")/../../deploy/prometheus"
command -v promtool >/dev/null || { echo "alerts: skipped: promtool is not installed"; exit 77; }
promtool check rules alerts.yaml
promtool test rules alerts_test.yaml
# Every rule is in the test, or it proves nothing.
sed -n 's/.*- alert: //p' alerts.yaml | while read -r name; do
    grep -q "alertname=\"$name\"" alerts_test.yaml || { echo "alerts: $name has no test"; exit 1; }
done
