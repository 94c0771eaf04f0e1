# SPDX-License-Identifier: Apache-2.0
"""
PyTorch's own tests of a backend, torch.testing._internal.distributed.distributed_test, over the backend that BACKEND
names, on WORLD_SIZE ranks; an argument chooses tests by a regular expression. tests/python/torch_tests.sh runs it.

Each rank is a fork, not a new interpreter, so a test takes a second. What PyTorch runs over gloo or MPI only runs, too:
to the conditions of the tests the backend is both.
"""

import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest

import torch
from torch.testing._internal import common_distributed

import halay.distributed  # noqa: F401 registers the backend

TESTS = "torch.testing._internal.distributed.distributed_test"


class Name(str):
    """The name of the backend, which is also gloo, in sets too, and mpi."""

    def __hash__(self):
        return hash("gloo")

    def __eq__(self, other):
        return other in ("gloo", "mpi") or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other


def load():
    """The module of tests, whose conditions look at BACKEND while it is imported."""
    spec = importlib.util.find_spec(TESTS)
    source = spec.loader.get_source(TESTS)
    line = 'BACKEND = os.environ["BACKEND"]'
    assert source.count(line) == 1, f"{spec.origin} takes the backend in another way than before"
    module = types.ModuleType(TESTS)
    module.__file__, module.Name = spec.origin, Name
    sys.modules[TESTS] = module
    exec(compile(source.replace(line, 'BACKEND = Name(os.environ["BACKEND"])'), spec.origin, "exec"), module.__dict__)
    return module


class Result(unittest.TestResult):
    """One line a test: its name and how it ended, with the reason."""

    def name(self, test):
        return test._testMethodName

    def _say(self, test, how, why=""):
        reason = next((line for line in why.splitlines() if re.match(r"\w*(Error|Failed)\b", line)), why.strip())
        print("\t".join((self.name(test), how, reason.split("\n")[0][:300])), flush=True)
        if how == "failed" and os.environ.get("VERBOSE"):
            print(why, file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self._say(test, "passed")

    def addSkip(self, test, reason):
        self._say(test, "skipped", reason)

    def addError(self, test, err):
        super().addError(test, err)
        self._say(test, "failed", self.errors[-1][1])

    addFailure = addError


def main():
    chosen = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    os.environ["TEMP_DIR"] = tempfile.mkdtemp()
    os.mkdir(os.path.join(os.environ["TEMP_DIR"], "barrier"))
    common_distributed.DistTestCases.backend_feature["plugin"].add(os.environ["BACKEND"])
    if int(os.environ["WORLD_SIZE"]) > 2:  # what these tests need; PyTorch runs them on 8 only
        common_distributed.skip_if_small_worldsize = lambda function: function
    tests = load()

    class Tests(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    names = [name for name in unittest.TestLoader().getTestCaseNames(Tests) if chosen.search(name)]
    unittest.TestSuite(map(Tests, names)).run(Result())


if __name__ == "__main__":
    main()
