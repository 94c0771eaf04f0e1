# SPDX-License-Identifier: Apache-2.0
"""
Temporal Fusion Transformers for tables of time series, as scikit-learn's users expect them.

    from halay.tft import Forecaster

    forecaster = Forecaster(horizon=24, max_time=60).fit(frame)     # columns unique_id, ds, y
    forecaster.predict(frame)                                       # unique_id, ds, y_0.1, y_0.5, y_0.9

Importing halay does not load the trainer, importing this does. pandas is imported when a table or a result needs it.
"""

from ._errors import ForecastWarning
from ._mlflow import write_mlflow
from ._results import Drift, Evaluation, Explanation
from ._tune import Tuning
from .forecaster import Forecaster
from ._torch import export_torch, import_torch

__all__ = [
    "Drift",
    "Evaluation",
    "Explanation",
    "ForecastWarning",
    "Forecaster",
    "Tuning",
    "export_torch",
    "import_torch",
    "write_mlflow",
]
