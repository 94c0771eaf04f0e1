# SPDX-License-Identifier: Apache-2.0
"""
One file of PyTorch's test/distributed over the backend that BACKEND names: torch_checkout.py FILE [TESTS].
tests/python/torch_tests.sh --pytorch runs it.

A test that starts a job or makes a group of gloo's gets one of that backend's, and each rank is a fork. What builds a
ProcessGroupGloo by hand, what needs a GPU, and what has threads for ranks is as it was.
"""

import functools
import importlib.util
import os
import re
import sys
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed
from torch_tests import Result

import halay.distributed  # noqa: F401 registers the backend

BACKEND = os.environ["BACKEND"]


def renamed(name):
    return re.sub(r"\bgloo\b", BACKEND, name) if isinstance(name, str) else name


def replace(function, position):
    """Wherever this function of torch's has been imported: it takes BACKEND for gloo, at this position or by name."""

    @functools.wraps(function)
    def call(*given, **options):
        given = [renamed(value) if place == position else value for place, value in enumerate(given)]
        return function(*given, **{name: renamed(value) for name, value in options.items()})

    for module in list(sys.modules.values()):
        if getattr(module, function.__name__, None) is function:
            setattr(module, function.__name__, call)


def start_forks(test):
    test._start_processes(torch.multiprocessing.get_context("fork").Process)


class ByClass(Result):
    def name(self, test):
        return f"{type(test).__name__}.{test._testMethodName}"


def chosen(suite, pattern):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test, pattern)
        elif pattern.search(ByClass.name(None, test)):
            yield test


def main():
    replace(dist.init_process_group, 0)
    replace(dist.new_group, 2)
    torch.multiprocessing.set_start_method("fork")
    common_distributed.MultiProcessTestCase._spawn_processes = start_forks
    path = os.path.abspath(sys.argv[1])
    sys.argv[0] = path  # the tests' own base asks which file is run
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    unittest.TestSuite(chosen(tests, pattern)).run(ByClass())


if __name__ == "__main__":
    main()
