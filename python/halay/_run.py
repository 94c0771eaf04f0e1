# SPDX-License-Identifier: Apache-2.0
"""
halay.run(): a function on several ranks, started from a Python program. This module is also what the ranks run.

Every `import halay` reads it, so it imports what it needs when it is called.
"""

import os
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

_FUNCTION = "function.pickle"


def _dumps(what: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return _dumps_by_name(what)
    return cloudpickle.dumps(what)


def _dumps_by_name(what: Any) -> bytes:
    """By pickle, which sends functions and classes as names of their modules: __main__ is another one in the ranks."""
    import io
    import pickle

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if getattr(obj, "__module__", None) == "__main__" and isinstance(obj, (type, type(_dumps))):
                raise pickle.PicklingError(f"{obj.__qualname__} is of the program itself (__main__)")
            return NotImplemented

    made = io.BytesIO()
    try:
        Pickler(made).dump(what)
    except (pickle.PicklingError, AttributeError, TypeError) as failure:
        raise pickle.PicklingError(
            f"{failure}, and cannot be sent to the ranks by name: install cloudpickle, or move it to a module"
        ) from failure
    return made.getvalue()


def _find_halayrun() -> str:
    import shutil

    beside = os.path.join(os.path.dirname(sys.executable), "halayrun")
    found = beside if os.access(beside, os.X_OK) else shutil.which("halayrun")
    if not found:
        raise FileNotFoundError("there is no halayrun beside this Python, nor in PATH")
    return found


def _options(given: Dict[str, Any]) -> List[str]:
    """What halayrun is told, of those that were given."""
    line: List[str] = []
    for option, value in given.items():
        if value is True:
            line.append(option)
        elif value is not None and value is not False:
            line.append(f"{option}={value}")
    return line


def _renamed(value: Any, old: Any, names: str) -> Any:
    if old is None:
        return value
    warnings.warn(f"{names.split()[0]} is deprecated, use {names.split()[1]} instead", DeprecationWarning, stacklevel=3)
    return old


def _collect(folder: str, count: int) -> List[Any]:
    import pickle

    results = []
    for rank in range(count):
        path = os.path.join(folder, f"result.{rank}")
        if not os.path.exists(path):
            raise RuntimeError(f"rank {rank} has left no result in {folder}: do all hosts share that folder?")
        with open(path, "rb") as file:
            results.append(pickle.load(file))
    return results


def _launch(words: List[str], call: bytes, where: Optional[str], count: int) -> List[Any]:
    """Run halayrun with these words and the ranks' module; what passes between lies in a temporary folder in where."""
    import shutil
    import subprocess
    import tempfile

    made = tempfile.mkdtemp(prefix="halay-run-", dir=where)
    try:
        with open(os.path.join(made, _FUNCTION), "wb") as file:
            file.write(call)
        code = subprocess.call([_find_halayrun(), *words, "-m", "halay._run", made])
        if code:
            raise RuntimeError(f"halayrun has ended with exit code {code}")
        return _collect(made, count)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Tuple[int, int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[int] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[int] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    network_interfaces: Optional[Sequence[str]] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
    folder: Optional[str] = None,
) -> List[Any]:
    """
    Start num_proc processes with halayrun, call func(*args, **kwargs) in each, and return what they returned, in order
    of rank. The arguments are those of horovod.run; the options of the same names of halayrun say what they mean.

    func and what it returns are pickled (by cloudpickle if it is installed; without it func must be in a module that
    the ranks can import). They pass through files in folder: by default a temporary one, or with other hosts one in the
    current directory, which the hosts must share. RuntimeError: a rank has failed; what it wrote to standard error says
    why. disable_cache and use_gloo change nothing.
    """
    num_proc = _renamed(num_proc, np, "np num_proc")
    min_num_proc = _renamed(min_num_proc, min_np, "min_np min_num_proc")
    max_num_proc = _renamed(max_num_proc, max_np, "max_np max_num_proc")
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    interface = network_interface or ",".join(network_interfaces or ()) or None
    options = _options({
        "--num-proc": num_proc, "--min-np": min_num_proc, "--max-np": max_num_proc, "--slots-per-host": slots,
        "--reset-limit": reset_limit, "--cooldown": "%d:%d" % tuple(cooldown_range) if cooldown_range else None,
        "--hosts": hosts, "--hostfile": hostfile, "--host-discovery-script": host_discovery_script,
        "--start-timeout": start_timeout, "--ssh-port": ssh_port, "--ssh-identity-file": ssh_identity_file,
        "--output-filename": output_filename, "--verbose": bool(verbose), "--mpi": bool(use_mpi),
        "--mpi-args": mpi_args, "--network-interface": interface,
    })  # fmt: skip
    has_others = hosts is not None or hostfile is not None or host_discovery_script is not None
    call = _dumps((func, tuple(args), dict(kwargs or {})))
    where = folder or (os.getcwd() if has_others else None)
    return _launch([*options, executable or sys.executable], call, where, min_num_proc or num_proc)


def _main() -> None:
    """A rank: call the function, and leave what it returns."""
    import pickle

    folder = sys.argv[1]
    with open(os.path.join(folder, _FUNCTION), "rb") as file:
        func, args, kwargs = pickle.load(file)
    result = func(*args, **kwargs)
    path = os.path.join(folder, "result." + os.environ.get("HALAY_RANK", "0"))
    with open(path + ".part", "wb") as file:
        file.write(_dumps(result))
    os.rename(path + ".part", path)


if __name__ == "__main__":
    _main()
