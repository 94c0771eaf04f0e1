# SPDX-License-Identifier: Apache-2.0
"""What perf's scripts ask of other programs."""

import subprocess


def can_import(python, modules, limit_s=None):
    """Has this Python the modules, named with commas?"""
    try:
        asked = subprocess.run([python, "-c", "import " + modules], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=limit_s, check=False)
        return asked.returncode == 0
    except OSError:
        return False


def output_of(command, limit_s, environment=None):
    """What a command prints; RuntimeError if it fails or prints nothing."""
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=limit_s, check=False)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError("%s: exit status %d\n%s" % (" ".join(command), done.returncode, done.stderr[-2000:]))
    return done.stdout
