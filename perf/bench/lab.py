# SPDX-License-Identifier: Apache-2.0
"""A lab of hosts on this machine (tests/lab/lab): made, and removed at the end however that comes."""

import contextlib
import os
import subprocess
import sys

import bench

SCRIPT = os.path.join(bench.TOP, "tests/lab/lab")


class Lab:
    def __init__(self, number):
        self.number = number

    def name(self, host):
        """What the host's name is, or that of several: "[1-4]"."""
        return "hl%s-%s" % (self.number, host)

    def on(self, host, command):
        """The words that run a command on a host."""
        return ["sh", SCRIPT, "enter", self.number, str(host)] + command

    def ask(self, *words):
        return bench.run(["sh", SCRIPT, words[0], self.number] + [str(word) for word in words[1:]])

    def bytes(self, host):
        """What it has sent and received over its link."""
        return [int(word) for word in self.ask("bytes", host).split()[:2]]


@contextlib.contextmanager
def lab(hosts, rate=None, has_ssh=False):
    """Ends the script with 77 where no lab can be made."""
    made = subprocess.run(["sh", SCRIPT, "make"] + ["--ssh"] * has_ssh + [str(hosts)] + [rate] * bool(rate),
                          stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        sys.exit(made.returncode)
    it = Lab(made.stdout.strip())
    try:
        yield it
    finally:
        it.ask("remove")
