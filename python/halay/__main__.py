# SPDX-License-Identifier: Apache-2.0
"""python -m halay: what this package is, and what can be run."""

import sys

from . import __version__
from ._library import lib

_TEXT = """halay {version} for Python: named arrays, reduced over all ranks of a job
library: {library}

  halayrun -np 4 python program.py                  a program that imports halay, halay.torch, ..., on 4 ranks
  halayrun -np 4 python -m halay.horovod train.py   a script for which `import horovod.torch` gives halay.torch
"""


def main() -> None:
    arguments = sys.argv[1:]
    text = _TEXT.format(version=__version__, library=lib._name)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(text, end="")
    elif arguments == ["--version"]:
        print(f"halay {__version__}")
    else:
        sys.exit(f"halay: unknown argument '{arguments[0]}'; expected none, --help or --version\n{text}")


if __name__ == "__main__":
    main()
