#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when deploy/grafana asks for a figure that docs/metrics.md does not have, or shows two panels at one place; and when
deploy/prometheus or that page's own expressions ask for one.
`--self-test` proves that both are found.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = r'\b((?:perfleet|process)_[a-z_]+)\b'


def read_families(text):
    return set(re.findall(r'^\| `' + NAME + '`', text, re.M))


def check(dashboard, families):
    taken = set()
    ids = [p['id'] for p in dashboard['panels']]
    if len(set(ids)) != len(ids):
        yield 'two panels have one id'
    for panel in dashboard['panels']:
        place = panel['gridPos']
        cells = {(x, y) for x in range(place['x'], place['x'] + place['w'])
                 for y in range(place['y'], place['y'] + place['h'])}
        if cells & taken or place['x'] + place['w'] > 24:
            yield f'panel "{panel["title"]}" lies on another, or beyond the page'
        taken |= cells
        for target in panel.get('targets', []):
            for name in re.findall(NAME, re.sub(r'__name__=~"[^"]*"', '', target['expr'])):
                if name not in families:
                    yield f'panel "{panel["title"]}": docs/metrics.md has no {name}'


def check_text(text, families):
    """Figures that rules, or the page's expressions, name."""
    for name in re.findall(NAME, re.sub(r'__name__=~"[^"]*"|"perfleet_\(', '', text)):
        if name not in families:
            yield f'docs/metrics.md has no {name}'


def self_test():
    place = {'x': 0, 'y': 0, 'w': 4, 'h': 4}
    panel = {'id': 1, 'title': 't', 'gridPos': place, 'targets': [{'expr': 'sum(perfleet_a)'}]}
    assert not list(check({'panels': [panel]}, {'perfleet_a'}))
    assert list(check({'panels': [panel]}, {'perfleet_b'}))
    assert list(check({'panels': [panel, {**panel, 'id': 2}]}, {'perfleet_a'}))
    assert list(check({'panels': [panel, {**panel, 'gridPos': {**place, 'y': 9}}]}, {'perfleet_a'}))
    assert not list(check_text('expr: perfleet_a > 1', {'perfleet_a'}))
    assert list(check_text('expr: perfleet_a > perfleet_b', {'perfleet_a'}))


def main():
    if '--self-test' in sys.argv:
        self_test()
        return 0
    families = read_families((ROOT / 'docs/metrics.md').read_text())
    mistakes = [f'{path.name}: {mistake}' for path in sorted((ROOT / 'deploy/grafana').glob('*.json'))
                for mistake in check(json.loads(path.read_text()), families)]
    page = (ROOT / 'docs/metrics.md').read_text()
    mistakes += [f'alerts.yaml: {m}' for m in
                 check_text((ROOT / 'deploy/prometheus/alerts.yaml').read_text(), families)]
    mistakes += [f'metrics.md: {m}' for m in check_text(page[page.index('## Alerts'):], families)]
    for mistake in mistakes:
        print(f'dashboard: {mistake}', file=sys.stderr)
    return 1 if mistakes or not families else 0


if __name__ == '__main__':
    sys.exit(main())
