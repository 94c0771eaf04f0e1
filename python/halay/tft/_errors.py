# SPDX-License-Identifier: Apache-2.0
"""Warnings of trainings and forecasts that succeeded."""


class ForecastWarning(UserWarning):
    """A model that does not beat naive forecasts, a training that is not healthy, a series that is not forecast."""
