# SPDX-License-Identifier: Apache-2.0
"""
halay.run(): a function on several ranks, started from a Python program. The ranks run _call.py.

Every `import halay` reads it, so it imports what it needs when it is called.
"""

import os
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

CALL = "call"
_CALL_MAX = 128 << 20  # halayrun's store keeps a copy of the call, and has room for twice that
# The first byte of a result, before its pickle.
RETURNED, FAILED = b"+", b"-"


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
        raise FileNotFoundError("halayrun is neither beside this Python nor in PATH")
    return found


def _options(given: Dict[str, Any]) -> List[str]:
    """Returns halayrun's options for the arguments that were given."""
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


def _read(path: str) -> Optional[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(path: str, content: bytes) -> None:
    with open(path + ".part", "wb") as file:
        file.write(content)
    os.rename(path + ".part", path)


def _collect(folder: str, count: int) -> List[Any]:
    import pickle

    results = []
    for rank in range(count):
        content = _read(os.path.join(folder, f"result.{rank}"))
        if content is None:
            raise RuntimeError(f"rank {rank} has ended without a result")
        if content[:1] == FAILED:
            _fail(0, folder)
        results.append(pickle.loads(memoryview(content)[1:]))
    return results


def _first_failure(folder: str) -> Tuple[str, Optional[BaseException]]:
    """Returns text and exception of the first rank that sent one: others may have failed because of that rank."""
    import pickle

    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("result.")]
    for path in sorted(paths, key=lambda path: os.stat(path).st_mtime_ns):
        with open(path, "rb") as file:
            if path.endswith(".part") or file.read(1) != FAILED:
                continue
            host, text, pickled = pickle.load(file)
        try:
            failure = pickle.loads(pickled)
        except Exception:  # its class may need what only the rank has
            failure = None
        return f"rank {path.rsplit('.', 1)[1]} on host '{host}' has failed:\n\n{text}", failure
    return "", None


def _fail(code: int, folder: str) -> None:
    import signal

    text = f"halayrun has ended with exit code {code}"
    if code > 128 and code - 128 in list(signal.Signals):
        text += f" ({signal.Signals(code - 128).name})"
    reason, failure = _first_failure(folder)
    raise RuntimeError(f"{text}; {reason}" if reason else text) from failure


def _launch(words: List[str], call: bytes, where: Optional[str], count: int, shares_files: bool) -> List[Any]:
    """Run halayrun with these words and the ranks' module. The call and the results pass through a temporary folder in
    where, which other hosts need only if they share_files."""
    import shutil
    import subprocess
    import tempfile

    made = tempfile.mkdtemp(prefix="halay-run-", dir=where)
    try:
        _write(os.path.join(made, CALL), call)
        line = [*words, "-m", "halay._call"]
        line = [*line, made] if shares_files else ["--call", made, *line]
        code = subprocess.call([_find_halayrun(), *line])
        if code:
            _fail(code, made)
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

    func, its arguments (128 MiB at most) and what it returns are pickled, by cloudpickle if it is installed; without it
    func must be in a module that the ranks can import. They pass through halayrun, so the hosts need no shared folder.
    On this host they are kept in a temporary folder, which is made in folder, by default the system's. Only with
    use_mpi and other hosts the ranks read and write it: it is made in the current folder, which the hosts must share.

    RuntimeError: a rank has failed; the text has the traceback of the first one that raised, __cause__ its exception.
    disable_cache and use_gloo change nothing.
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
    if not use_mpi and len(call) > _CALL_MAX:
        raise ValueError(f"func and its arguments are {len(call)} bytes, at most {_CALL_MAX} can be sent to the ranks")
    where = folder or (os.getcwd() if has_others and use_mpi else None)
    words = [*options, executable or sys.executable]
    return _launch(words, call, where, min_num_proc or num_proc, bool(use_mpi))
