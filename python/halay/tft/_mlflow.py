# SPDX-License-Identifier: Apache-2.0
"""MLflow: a run's numbers as a store of files."""

import csv
import json
import os
import uuid
from pathlib import Path
from typing import Union

_STATUS = {"done": 3, "stopped": 5, "failed": 4}  # MLflow's numbers, by end.json's words; 1: it runs


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def write_mlflow(run: Union[str, "os.PathLike[str]"]) -> str:
    """
    Write the numbers of a training into RUN/mlflow, which MLflow reads as a tracking store (mlflow ui
    --backend-store-uri RUN/mlflow), and return its path. run: the folder of a training with log="csv", which may still
    be running; a second call renews what the first wrote. FileNotFoundError: the folder has no run.json or steps.csv.
    """
    folder = Path(run).resolve()
    config = json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]
    experiment = folder / "mlflow" / "0"
    made = next((one.name for one in experiment.glob("?" * 32)), uuid.uuid4().hex)
    place = experiment / made
    for name in ("metrics", "params", "tags", "artifacts"):
        (place / name).mkdir(parents=True, exist_ok=True)
    times = []
    for table in ("steps.csv", "evaluations.csv"):
        if table != "steps.csv" and not (folder / table).exists():  # no evaluation yet
            continue
        with open(folder / table, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        times += [int(float(row["seconds"]) * 1000) for row in rows]
        for name in rows[0].keys() - {"step", "seconds"} if rows else ():
            lines = [f"{int(float(row['seconds']) * 1000)} {row[name]} {row['step']}\n" for row in rows]
            (place / "metrics" / name).write_text("".join(lines), encoding="utf-8")
    for name, value in config.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (place / "params" / name).write_text(text, encoding="utf-8")
    for name, text in (("mlflow.runName", folder.name), ("mlflow.source.name", "halay-tft")):
        (place / "tags" / name).write_text(text, encoding="utf-8")
    end = folder / "end.json"
    how = json.loads(end.read_text(encoding="utf-8"))["end"] if end.exists() else ""
    began = min(times, default=0)
    (experiment / "meta.yaml").write_text(
        f"artifact_location: {_quoted(experiment)}\ncreation_time: {began}\nexperiment_id: '0'\n"
        f"last_update_time: {began}\nlifecycle_stage: active\nname: halay-tft\n",
        encoding="utf-8",
    )
    (place / "meta.yaml").write_text(
        f"artifact_uri: {_quoted(place / 'artifacts')}\n"
        f"end_time: {int(end.stat().st_mtime * 1000) if how else 'null'}\nentry_point_name: ''\nexperiment_id: '0'\n"
        f"lifecycle_stage: active\nrun_id: '{made}'\nrun_name: {_quoted(folder.name)}\nrun_uuid: '{made}'\n"
        f"source_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {began}\nstatus: {_STATUS.get(how, 1)}\n"
        "tags: []\nuser_id: ''\n",
        encoding="utf-8",
    )
    return str(folder / "mlflow")
