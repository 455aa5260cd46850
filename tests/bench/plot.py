#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the growth of costs: plot.py growth.json > docs/growth.svg (run --only growth --growth FILE)."""
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 330, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 20, 40, 34
COLUMNS = 3
COLOURS = {'perfleetd': '#0b6e4f', 'traced': '#c1440e', 'traced V2': '#7a6ff0'}


def decades(values):
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)) + 1e-9)
    return low, max(high, low + 1)


def label(e):
    """10 to the power of e."""
    if e < 3:
        return f'{10 ** e:g}'
    return '1' + '0' * (e % 3) + ' kMG'[e // 3]


class Panel:
    def __init__(self, series, at):
        self.s = series
        self.x0, self.y0 = at
        points = [p for kind in series['kinds'].values() for p in kind]
        self.xs = decades([max(n, 1) for n, _ in points])
        self.ys = decades([max(v, 1e-3) for _, v in points])

    def x(self, n):
        part = (math.log10(max(n, 1)) - self.xs[0]) / (self.xs[1] - self.xs[0])
        return self.x0 + LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        part = (math.log10(max(value, 1e-3)) - self.ys[0]) / (self.ys[1] - self.ys[0])
        return self.y0 + HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def grid(self):
        for e in range(self.xs[0], self.xs[1] + 1):
            x = self.x(10 ** e)
            yield f'<line class="g" x1="{x:.1f}" y1="{self.y(10 ** self.ys[0]):.1f}" x2="{x:.1f}" ' \
                f'y2="{self.y(10 ** self.ys[1]):.1f}"/>'
            yield f'<text x="{x:.1f}" y="{self.y0 + HEIGHT - BOTTOM + 14}" ' \
                f'text-anchor="middle">{label(e)}</text>'
        for e in range(self.ys[0], self.ys[1] + 1):
            y = self.y(10 ** e)
            yield f'<line class="g" x1="{self.x(10 ** self.xs[0]):.1f}" y1="{y:.1f}" ' \
                f'x2="{self.x(10 ** self.xs[1]):.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{self.x0 + LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{label(e)}</text>'

    def draw(self):
        yield f'<text class="t" x="{self.x0 + 6}" y="{self.y0 + 16}">{escape(self.s["name"])}</text>'
        unit = f'{self.s["unit"]} of CPU; linear would be slope {self.s["expected"]}' \
            if self.s['expected'] else f'{self.s["unit"]} of CPU; ought to be flat'
        yield f'<text class="u" x="{self.x0 + 6}" y="{self.y0 + 30}">{escape(unit)}</text>'
        yield from self.grid()
        for kind, points in self.s['kinds'].items():
            line = ' '.join(f'{self.x(n):.1f},{self.y(v):.1f}' for n, v in points)
            colour = COLOURS.get(kind, '#555')
            yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for n, v in points:
                yield f'<circle cx="{self.x(n):.1f}" cy="{self.y(v):.1f}" r="2.6" fill="{colour}"/>'


def main(path):
    with open(path, encoding='utf-8') as f:
        series = [s for part in json.load(f).values() for s in part]
    rows = -(-len(series) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + 26
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'font-family="sans-serif" font-size="10">',
           '<style>.g{stroke:#ddd;stroke-width:1}.t{font-size:12px;font-weight:bold}'
           '.u{fill:#666}</style>',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, s in enumerate(series):
        out += Panel(s, (i % COLUMNS * WIDTH, 26 + i // COLUMNS * HEIGHT)).draw()
    kinds = dict.fromkeys(kind for s in series for kind in s['kinds'])
    for i, kind in enumerate(kinds):
        colour = COLOURS.get(kind, '#555')
        out.append(f'<circle cx="{16 + 110 * i}" cy="14" r="4" fill="{colour}"/>'
                   f'<text class="t" x="{25 + 110 * i}" y="18">{escape(kind)}</text>')
    print('\n'.join(out + ['</svg>']))


if __name__ == '__main__':
    main(sys.argv[1])
