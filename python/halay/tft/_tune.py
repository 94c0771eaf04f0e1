# SPDX-License-Identifier: Apache-2.0
"""A search for the best keys: `halay-tft tune` with the data of a table, whose lines are shown as they come."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Mapping

from .. import _library
from ..constants import Status
from ..errors import error
from ._progress import Silent
from ._results import Document
from ._session import warn

_OWN = ("data", "out", "config", "json", "csv", "page", "best", "help")  # options that the call gives, or that end it
_OPTIONS = (
    "resume", "trials", "time", "cost", "price_per_hour", "search", "goal", "eta", "rungs", "search_seed", "parallel",
    "ranks", "hosts", "halayrun",
)  # fmt: skip
_LOCK_SECONDS = 60.0  # as the program waits for the last trainings of a search that has ended
_STATUS_OF_EXIT = {2: Status.CONFIG}  # EXIT_USAGE


def _find_program() -> str:
    """halay-tft beside this Python, as a wheel has it, in PATH, or where the library is installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "halay-tft")
    installed = os.path.join(os.path.dirname(_library.path), os.pardir, "bin", "halay-tft")
    found = beside if os.access(beside, os.X_OK) else shutil.which("halay-tft")
    if not found and os.path.dirname(_library.path) and os.access(installed, os.X_OK):
        found = installed
    if not found:
        raise FileNotFoundError("cannot find halay-tft beside this Python or in PATH")
    return found


def options_of(given: Mapping[str, Any]) -> List[str]:
    """Options as arguments of the program: trials=20 is --trials=20, resume=True is --resume. TypeError: not known."""
    args = []
    for name, value in given.items():
        if name in _OWN:
            raise TypeError(f"tune() has no argument '{name}': the folder has what the search found")
        if name not in _OPTIONS:
            raise TypeError(f"tune() has no option '{name}': a key of all trainings is set in the Forecaster")
        option = "--" + name.replace("_", "-")
        if value is True:
            args.append(option)
        elif value is not None and value is not False:
            args.append(f"{option}={value}")
    return args


def check_folder(folder: str, resume: bool) -> None:
    """Before the folder is written to: no search is at work there, nor has one been that is not to be resumed."""
    journal, path = os.path.join(folder, "tune.jsonl"), os.path.join(folder, "lock")
    if not resume and os.path.exists(journal) and os.path.getsize(journal):
        raise error(Status.CONFIG, f"'{journal}' has a search already: use resume=True to continue it")
    if not os.path.exists(path):
        return
    deadline = time.monotonic() + _LOCK_SECONDS
    with open(path, "r+b") as file:
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise error(Status.SYSTEM, f"cannot lock '{path}': another search is at work there") from None
            time.sleep(0.1)


def search(folder: str, space: Any, config: str, options: List[str], shown: Silent) -> Dict[str, Any]:
    """
    Search in the folder, which has data.htd; what tune.json holds then. space: JSON, or a path. options: options_of.
    KeyboardInterrupt: the search has ended, and can be resumed in its folder.
    """
    if isinstance(space, bytes):
        space = _write(folder, "space.json", space)
    line = [_find_program(), "tune", os.fspath(space), f"--data={os.path.join(folder, 'data.htd')}", f"--out={folder}"]
    line += [f"--config={_write(folder, 'config.json', config.encode())}", *options]
    child = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        failure = _listen(child, shown)
        code = child.wait()
    except BaseException:
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    if code in (130, -signal.SIGINT):
        raise KeyboardInterrupt
    if code:
        message = failure or f"halay-tft tune has ended with exit code {code}"
        raise error(_STATUS_OF_EXIT.get(code, Status.SYSTEM), message)
    with open(os.path.join(folder, "tune.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def _listen(child: Any, shown: Silent) -> str:
    """Show what the search writes, and say what it warns of; its error, if it has one."""
    failure = ""
    for line in child.stdout:
        text = line.rstrip("\n")
        if text.startswith("halay warning: "):
            warn(text.split("warning: ", 1)[1])
        elif text.startswith("halay error: "):
            failure = text.split("error: ", 1)[1]
        elif text.startswith("trial ") and text[6:7].isdigit():
            shown.say(text)
    return failure


def _write(folder: str, name: str, content: bytes) -> str:
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


class Tuning(Document):
    """
    What a search has found. best: the best keys; forecaster: a Forecaster with them, fitted to the whole table; frame:
    a row for each trial; document, and tuning[key]: what `halay-tft tune --json` writes.
    """

    def __init__(self, document: Dict[str, Any], forecaster: Any) -> None:
        super().__init__(document)
        self.forecaster = forecaster

    @property
    def trials(self) -> List[Dict[str, Any]]:
        """Each trial, the best first, those without a value last."""
        return sorted(self["rows"], key=lambda row: (row["trial"] != self["best"], *_rank(row)))

    @property
    def best(self) -> Dict[str, Any]:
        """The keys of the best trial that the space has."""
        return dict(self.trials[0]["keys"])

    @property
    def frame(self) -> Any:
        """The trials, the best first: trial, state, the goal's value, share of a run, steps, seconds, and each key."""
        return self._table("trials").iloc[[row["trial"] for row in self.trials]].reset_index(drop=True)


def _rank(row: Mapping[str, Any]) -> Any:
    value = row.get("value")
    return row["state"] != "done", value is None, value or 0.0


def best_run(folder: str, tuning: Mapping[str, Any]) -> str:
    """The folder of the best trial's run, if its training has finished; else ""."""
    state = next(row["state"] for row in tuning["rows"] if row["trial"] == tuning["best"])
    return os.path.join(folder, f"trial-{tuning['best']:04d}") if state == "done" else ""


def metrics_of(run: str) -> List[Dict[str, Any]]:
    """Return the evaluations of a run."""
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if "valid_loss" in row]
