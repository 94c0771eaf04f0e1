#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read what a training wrote for TensorBoard, without TensorBoard, and compare it with its steps.csv.

usage: events.py [--tensorboard | --mlflow] RUN: the same by TensorBoard or MLflow themselves.
"""
import csv
import glob
import os
import struct
import sys

STEPS = [10, 20, 30, 40, 50, 60, 70, 80]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check_sum(data, stored):
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked == struct.unpack("<I", stored)[0], "wrong checksum"


def records(path):
    with open(path, "rb") as file:
        while True:
            head = file.read(12)
            if not head:
                return
            check_sum(head[:8], head[8:])
            data = file.read(struct.unpack("<Q", head[:8])[0])
            check_sum(data, file.read(4))
            yield data


def fields(data):
    """The fields of a protocol buffer: a list of (number, value)."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = data[at:at + size]
            assert len(value) == size
            at += size
        found.append((key >> 3, value))
    return found


def read_alone(run):
    """Scalars by name and step, and histograms' tags by step, as TensorBoard purges them."""
    scalars, histograms, versions = {}, {}, 0
    for path in sorted(glob.glob(os.path.join(run, "tensorboard", "events.out.tfevents.*"))):
        for data in records(path):
            event = dict(fields(data))
            step = event[2]
            versions += event.get(3) == b"brain.Event:2"
            if 7 in event:
                scalars = {k: v for k, v in scalars.items() if k[1] < step}
                histograms = {k: v for k, v in histograms.items() if k[1] < step}
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                tag = value[1].decode()
                if 2 in value:
                    scalars[tag, step] = struct.unpack("<f", value[2])[0]
                else:
                    histogram = dict(fields(value[5]))
                    count = struct.unpack("<d", histogram[3])[0]
                    buckets = struct.unpack("<30d", histogram[7])
                    limits = struct.unpack("<30d", histogram[6])
                    assert sum(buckets) == count and list(limits) == sorted(limits)
                    histograms[tag, step] = count
    assert versions == 3, versions
    return scalars, histograms


def alone(run):
    scalars, histograms = read_alone(run)
    with open(os.path.join(run, "steps.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == STEPS
    for row in rows:
        for name in ("loss", "learning_rate", "gradient_norm"):
            assert abs(scalars[name, int(row["step"])] - float(row[name])) <= 1e-6 * abs(float(row[name])), name
    assert sorted(step for name, step in scalars if name == "loss") == STEPS
    assert sorted(step for name, step in scalars if name == "valid_loss") == [20, 40, 60, 80]
    tags = {tag for tag, _ in histograms}
    assert "weights/output.quantiles.kernel" in tags and "gradients/output.quantiles.kernel" in tags, tags
    assert histograms["weights/output.quantiles.kernel", 80] == 4 * 3


def by_tensorboard(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == STEPS
    # The evaluation after step 60 was still due in the checkpoint, and made twice.
    steps = [event.step for event in events.Histograms("weights/output.quantiles.kernel")]
    assert sorted(set(steps)) == [20, 40, 60, 80], steps


def by_mlflow(run):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3.7 and later ask for it
    import mlflow
    client = mlflow.MlflowClient(tracking_uri="file://" + os.path.join(os.path.abspath(run), "mlflow"))
    (found,) = client.search_runs(["0"])
    assert found.info.status == "FINISHED" and found.data.params["hidden_size"] == "4"
    assert [metric.step for metric in client.get_metric_history(found.info.run_id, "loss")] == STEPS


if __name__ == "__main__":
    {"--tensorboard": by_tensorboard, "--mlflow": by_mlflow}.get(sys.argv[1], alone)(sys.argv[-1])
