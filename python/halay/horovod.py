# SPDX-License-Identifier: Apache-2.0
"""
The names of Horovod for scripts that cannot be changed: `import horovod.torch` gives halay.torch.

    halayrun -np 4 python -m halay.horovod train.py --lr 0.1
    halayrun -np 4 python -m halay.horovod -m package.module

or `import halay.horovod` before `import horovod.torch`. Only where it is asked for: halay installs no package of that
name, and one that is installed is hidden from such a process and its children alone.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import types
from typing import Any, Optional, Sequence

_MODULES = {
    "horovod.torch": "halay.torch",
    "horovod.torch.compression": "halay.torch.compression",
    "horovod.torch.elastic": "halay.torch.elastic",
    "horovod.torch.elastic.sampler": "halay.torch.elastic.sampler",
    "horovod.torch.elastic.state": "halay.torch.elastic.state",
    "horovod.torch.functions": "halay.torch.functions",
    "horovod.torch.mpi_ops": "halay.torch._mpi_ops",
    "horovod.torch.optimizer": "halay.torch.optimizer",
    "horovod.torch.sync_batch_norm": "halay.torch.sync_batch_norm",
    "horovod.common.elastic": "halay.torch.elastic.state",
    "horovod.common.exceptions": "halay.torch._mpi_ops",
    "horovod.common.process_sets": "halay.torch.process_sets",
    "horovod.common.util": "halay.torch._mpi_ops",
    "horovod.ray": "halay.ray",
    "horovod.runner": "halay._run",
}
_PACKAGES = ("horovod", "horovod.common")

# The version of Horovod whose names these are.
__version__ = "0.28.1"

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_horovod")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules above under Horovod's names: each is the very module of halay."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[Any]] = None, target: Optional[types.ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname.split(".")[0] != "horovod":
            return None
        if fullname in _MODULES or fullname in _PACKAGES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)
        raise ModuleNotFoundError(
            f"halay has no {fullname}: of Horovod it offers horovod.torch and horovod.run", name=fullname
        )

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if name in _MODULES:
            # The import system returns what is in sys.modules after this.
            sys.modules[name] = importlib.import_module(_MODULES[name])
        elif name == "horovod":
            module.__dict__.update(__version__=__version__, run=importlib.import_module("halay._run").run)


def _install() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules.pop("horovod", None)
    importlib.import_module("horovod")


def _set_environment() -> None:
    """For the script: the variables that horovodrun would have set. For children that it starts (loaders of data, for
    example): they find these names, too."""
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"):
        value = os.environ.get("HALAY_" + name)
        if value is not None:
            os.environ.setdefault("HOROVOD_" + name, value)
    path = os.environ.get("PYTHONPATH")
    if _FOLDER not in (path or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = _FOLDER + (os.pathsep + path if path else "")


def main() -> None:
    """python -m halay.horovod SCRIPT|-m MODULE ARGUMENTS"""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.exit("usage: python -m halay.horovod SCRIPT|-m MODULE [ARGUMENTS]\n"
                 "Runs a script for which `import horovod.torch` gives halay.torch.")
    _set_environment()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


_install()

if __name__ == "__main__":
    main()
