# SPDX-License-Identifier: Apache-2.0
"""PFL_BENCH_SMALL in the environment makes any benchmark one of seconds, whatever its options say: integration.bench
runs the commands of docs/benchmarks.md so, as they stand there."""
import os


def apply(options, **least):
    """Sets these of the options, where that is wanted."""
    if os.environ.get('PFL_BENCH_SMALL'):
        vars(options).update(least)
        print('# small: ' + ' '.join(f'{k}={v}' for k, v in least.items()), flush=True)
    return options
