# SPDX-License-Identifier: Apache-2.0
"""Matplotlib for perf/bench/plot and perf/bench/simulate, from whichever python3 of the machine has it."""

import os
import sys

from bench import can_import


def pythons():
    """All python3, in the order of PATH, the system's own at the end."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep) + ["/usr/local/bin", "/usr/bin"]
    paths = [os.path.join(folder, "python3") for folder in folders if folder]
    return [path for place, path in enumerate(paths) if path not in paths[:place] and os.access(path, os.X_OK)]


def need_matplotlib():
    """None if this Python has it. Otherwise the program starts again in one that has it; if none has, a text about
    it."""
    try:
        import matplotlib  # noqa: F401
        return None
    except ImportError:
        pass
    sys.stdout.flush()
    for python in pythons():
        if can_import(python, "matplotlib"):
            os.execv(python, [python] + sys.argv)
    return ("needs Python's matplotlib (Debian: python3-matplotlib), which is not installed: asked were "
            + ", ".join(pythons()))
