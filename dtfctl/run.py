"""Run a TensorFlow 1 script as it is: `python -m dtfctl.run script.py [ARGS]`, or look through it with --check.

`import tensorflow as tf` and `import tensorflow.compat.v1 as tf` in it, and in what it imports, mean `dtfctl.runtime`.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

USAGE = "usage: python -m dtfctl.run [--check] SCRIPT [ARGS]..."


def main(words: Sequence[str]) -> int:
    """Run or check a script; the exit code of a check is 1 where something is missing."""
    checks = bool(words) and words[0] == "--check"
    rest = list(words[1:] if checks else words)
    if not rest or rest[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    script = rest[0]
    if not os.path.isfile(script):
        print(f"{script}: there is no such file", file=sys.stderr)
        return 2
    if checks:
        return _check(rest)
    from dtfctl.runtime.programs.as_tensorflow import install

    install()
    sys.argv = rest
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return 0


def _check(scripts: Sequence[str]) -> int:
    from dtfctl.runtime.programs.checking import check

    count = 0
    for script in scripts:
        try:
            with open(script, encoding="utf-8") as file:
                found = check(file.read(), script)
        except (OSError, SyntaxError, UnicodeDecodeError) as e:
            print(f"{script}: {e}", file=sys.stderr)
            return 2
        for item in found:
            print(f"{script}:{item.line}:{item.column}: {item.message}")
        count += len(found)
    print(f"{count} names are missing" if count else "every name of TensorFlow that is used is there", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
