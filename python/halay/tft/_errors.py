# SPDX-License-Identifier: Apache-2.0
"""What is said of a training or a forecast that went through."""


class ForecastWarning(UserWarning):
    """A model that is no better than naive, a training that is not healthy, a series that is not forecast."""
