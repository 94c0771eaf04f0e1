# SPDX-License-Identifier: Apache-2.0
"""The timeline that Horovod's start_timeline() writes, made of halay's."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List

from halay import Context


def _path_of(path: str, rank: int) -> str:
    """Where halay writes a rank's own timeline: the rank goes in front of the extension."""
    stem, extension = os.path.splitext(path)
    return f"{stem}.{rank}{extension}"


def _convert(given: Dict[str, Any], mark_cycles: bool) -> List[Dict[str, Any]]:
    """Events in Horovod's form: a process for each tensor, with the time until all ranks had submitted it
    (NEGOTIATE_...) and the time of its collective."""
    events = given["traceEvents"]
    timed = [event["ts"] for event in events if "ts" in event]
    begin = min(timed, default=0.0)
    made: List[Dict[str, Any]] = [{
        "name": "start_time_since_epoch_in_micros", "ph": "M", "pid": 0,
        "args": {"start_time_since_epoch_in_micros": int(begin + given["otherData"].get("wall_us", 0))}}]
    numbers: Dict[str, int] = {}
    what = {}
    for event in events:
        if event.get("cat") == "tensor":
            name = event["name"]
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                made.append({"name": "process_name", "ph": "M", "pid": numbers[name], "args": {"name": name}})
            if event["ph"] == "b":
                what[event["id"]] = event["args"]["operation"].upper().replace("-", "")
            operation = what.get(event["id"])
            if operation is None:
                continue
            at = {"pid": numbers[name], "ts": event["ts"] - begin}
            if event["ph"] == "b":
                made.append({"name": "NEGOTIATE_" + operation, "ph": "B", **at})
            elif event["ph"] == "n":
                made += [{"ph": "E", **at}, {"name": operation, "ph": "B", **at}]
            else:
                made.append({"ph": "E", **at})
        elif event.get("cat") == "sleep" and mark_cycles:
            woke = event["ts"] + event["dur"] - begin
            made.append({"name": "CYCLE_START", "ph": "i", "s": "g", "pid": 0, "ts": woke})
    return made


class Recording:
    """A timeline that is on. Every rank gets halay's own (t.0.json, ...), rank 0 also one in Horovod's form (t.json).
    """

    def __init__(self, ctx: Context, path: str, mark_cycles: bool) -> None:
        self._ctx, self._path, self._mark_cycles = ctx, path, mark_cycles
        ctx.timeline_start(path)

    def stop(self) -> None:
        """Write the files."""
        self._ctx.timeline_stop()
        if self._ctx.rank:
            return
        with open(_path_of(self._path, 0), encoding="utf-8") as file:
            events = _convert(json.load(file), self._mark_cycles)
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(events, file)
