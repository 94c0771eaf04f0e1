#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forecasts of another library, for perf/bench/suite, in a Python that has that library.

usage: peers.py NAME [FOLDER]. Without a FOLDER the versions of NAME's packages are printed. FOLDER holds job.json,
{"horizon", "season", "seconds", "seed", "windows"}, and for each window N past-N.csv (unique_id, ds, y) and
future-N.csv (the same without y). Each library is fitted to past-0.csv and forecasts from the end of each past;
made-N.csv gets unique_id and the quantiles .1, .5, .9 in ascending order.
"""

import importlib.metadata
import json
import os
import sys
import warnings

import numpy
import pandas

LEVELS = (.1, .5, .9)


def read_rows(folder, kind, window):
    """The rows with their number in the series as ds, and what dates tell."""
    rows = pandas.read_csv(os.path.join(folder, "%s-%d.csv" % (kind, window)), dtype={"unique_id": str, "ds": str})
    moments = pandas.to_datetime(rows["ds"], errors="coerce")
    if moments.notna().all():
        for name, part in (("hour", "hour"), ("day", "day"), ("weekday", "dayofweek"), ("month", "month")):
            rows[name] = getattr(moments.dt, part)
    rows["ds"] = rows.groupby("unique_id").cumcount()
    return rows


def calendar_of(rows):
    """The names of calendar columns that differ between rows; the weekday of each month's first is no use."""
    differ = [name for name in ("hour", "day", "weekday", "month") if name in rows and rows[name].nunique() > 1]
    return [name for name in differ if name != "day" and (name != "weekday" or "day" in differ)]


class Job:
    def __init__(self, folder):
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
            facts = json.load(file)
        self.horizon, self.season, self.seconds, self.seed = (
            facts[name] for name in ("horizon", "season", "seconds", "seed"))
        self.pasts = [read_rows(folder, "past", window) for window in range(facts["windows"])]
        self.futures = [read_rows(folder, "future", window) for window in range(facts["windows"])]
        for past, future in zip(self.pasts, self.futures):
            future["ds"] += future["unique_id"].map(past.groupby("unique_id").size())
        self.train, self.calendar = self.pasts[0], calendar_of(self.pasts[0])
        self.shortest = self.train.groupby("unique_id").size().min()


def lightgbm(job):
    """mlforecast: a quantile regression for each level, of lags and dates.

    Its conformal intervals would hold back two horizons of each series, which leaves nothing of the shortest ones.
    """
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast

    lags = {*range(1, max(3, job.season) + 1), 2 * job.season}
    models = {"q%g" % level: LGBMRegressor(objective="quantile", alpha=level, verbosity=-1, random_state=job.seed)
              for level in LEVELS}
    forecaster = MLForecast(models=models, freq=1, lags=sorted(lag for lag in lags if 2 * lag <= job.shortest))
    columns = ["unique_id", "ds", "y"] + job.calendar
    forecaster.fit(job.train[columns], static_features=[])
    for past, future in zip(job.pasts, job.futures):
        known = {"X_df": future[["unique_id", "ds"] + job.calendar]} if job.calendar else {}
        yield forecaster.predict(job.horizon, new_df=past[columns], **known)


def autotheta(job):
    """statsforecast: fitted anew to each past."""
    from statsforecast import StatsForecast
    from statsforecast.models import AutoTheta

    for past in job.pasts:
        made = StatsForecast(models=[AutoTheta(season_length=job.season)], freq=1, n_jobs=-1).forecast(
            df=past[["unique_id", "ds", "y"]], h=job.horizon, level=[80])
        yield made[["unique_id", "ds", "AutoTheta-lo-80", "AutoTheta", "AutoTheta-hi-80"]]


def neuralforecast(job, name):
    """The encoder, which has no default, holds two horizons, as in its tutorials."""
    from neuralforecast import NeuralForecast, models
    from neuralforecast.losses.pytorch import MQLoss

    model = getattr(models, name)(
        h=job.horizon, input_size=2 * job.horizon, loss=MQLoss(quantiles=list(LEVELS)), random_seed=job.seed,
        start_padding_enabled=True, max_time={"seconds": job.seconds}, accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_checkpointing=False)
    forecaster = NeuralForecast(models=[model], freq=1)
    forecaster.fit(job.train[["unique_id", "ds", "y"]])
    for past in job.pasts:
        yield forecaster.predict(df=past[["unique_id", "ds", "y"]])


def pytorch_forecasting(job):
    """Its TFT, with the inputs, learning rate, batch and clipping of its tutorials."""
    import lightning.pytorch
    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.data import NaNLabelEncoder

    lightning.pytorch.seed_everything(job.seed)
    encoder = 3 * job.horizon
    for rows in job.pasts + job.futures:
        rows[job.calendar] = rows[job.calendar].astype(str)
    data = TimeSeriesDataSet(
        job.train, time_idx="ds", target="y", group_ids=["unique_id"], max_encoder_length=encoder,
        min_encoder_length=max(1, min(encoder // 2, int(job.shortest) - job.horizon)),
        max_prediction_length=job.horizon, static_categoricals=["unique_id"],
        time_varying_known_categoricals=job.calendar, time_varying_known_reals=["ds"],
        time_varying_unknown_reals=["y"], categorical_encoders={
            name: NaNLabelEncoder(add_nan=True) for name in job.calendar},  # months that the training lacks
        add_relative_time_idx=True, add_target_scales=True, add_encoder_length=True)
    model = TemporalFusionTransformer.from_dataset(data, learning_rate=.03)
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = lightning.pytorch.Trainer(max_epochs=-1, max_time={"seconds": job.seconds}, gradient_clip_val=.1, **quiet)
    trainer.fit(model, data.to_dataloader(train=True, batch_size=128))
    at = [model.loss.quantiles.index(level) for level in LEVELS]
    for past, future in zip(job.pasts, job.futures):
        last = past.groupby("unique_id").tail(encoder)
        future = future.assign(y=future["unique_id"].map(last.groupby("unique_id")["y"].last()))
        rows = pandas.concat([last, future], ignore_index=True)
        made = model.predict(TimeSeriesDataSet.from_dataset(data, rows, predict=True, stop_randomization=True),
                             mode="quantiles", return_index=True, trainer_kwargs=dict(quiet))  # which it changes
        table = pandas.DataFrame(made.output[:, :, at].reshape(-1, len(at)).numpy())
        table.insert(0, "unique_id", numpy.repeat(made.index["unique_id"].to_numpy(), job.horizon))
        table.insert(1, "ds", numpy.tile(numpy.arange(job.horizon), len(made.index)))
        yield table


PEERS = {
    "autotheta": (autotheta, ["statsforecast"]),
    "lightgbm": (lightgbm, ["mlforecast", "lightgbm"]),
    "neuralforecast-nhits": (lambda job: neuralforecast(job, "NHITS"), ["neuralforecast"]),
    "neuralforecast-tft": (lambda job: neuralforecast(job, "TFT"), ["neuralforecast"]),
    "pytorch-forecasting": (pytorch_forecasting, ["pytorch-forecasting"]),
}


def main():
    forecast, packages = PEERS[sys.argv[1]]
    if len(sys.argv) == 2:
        print(" and ".join("%s %s" % (name, importlib.metadata.version(name)) for name in packages))
        return
    warnings.simplefilter("ignore")
    for window, made in enumerate(forecast(Job(sys.argv[2]))):
        made = made.sort_values(["unique_id", "ds"])
        quantiles = numpy.sort(made[made.columns[-len(LEVELS):]].to_numpy(), axis=1)
        made = pandas.DataFrame(quantiles).assign(unique_id=made["unique_id"].to_numpy()).set_index("unique_id")
        made.to_csv(os.path.join(sys.argv[2], "made-%d.csv" % window))


main()
