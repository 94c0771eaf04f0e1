#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Likelihoods and quantiles of the distributions that halay-tft forecasts, by SciPy, to compare halay's with.

Tweedie's are added up here in another way than there: its density and probability are Poisson's of n times those of the
sum of n gamma values, over all n.

    python3 losses.py > losses.txt        (needs scipy and numpy)
"""
import numpy as np
from scipy import optimize, stats

QUANTILES = [0.001, 0.025, 0.1, 0.5, 0.9, 0.975, 0.999]


class Tweedie:
    def __init__(self, mean, dispersion, power):
        self.expected = mean ** (2 - power) / (dispersion * (2 - power))
        self.shape = (2 - power) / (power - 1)
        self.scale = dispersion * (power - 1) * mean ** (power - 1)
        reach = 12 * self.expected**0.5 + 30
        self.n = np.arange(max(1, int(self.expected - reach)), int(self.expected + reach))
        self.chance = stats.poisson.pmf(self.n, self.expected)

    def logpdf(self, y):
        if y == 0:
            return -self.expected
        return np.log(np.sum(self.chance * stats.gamma.pdf(y, self.n * self.shape, scale=self.scale)))

    def cdf(self, y):
        return np.exp(-self.expected) + np.sum(self.chance * stats.gamma.cdf(y, self.n * self.shape, scale=self.scale))

    def ppf(self, q):
        if q <= np.exp(-self.expected):
            return 0.0
        high = 1.0
        while self.cdf(high) < q:
            high *= 2
        return optimize.brentq(lambda y: self.cdf(y) - q, 0, high, xtol=1e-13, rtol=1e-13)


def show(word, parameters, power, distribution, values, log_likelihood):
    at = " ".join("%.17g" % p for p in (list(parameters) + [0, 0])[:3])
    for y in values:
        print(f"likelihood {word} {power} {at} {y!r} {-log_likelihood(y):.15g}")
    for q in QUANTILES:
        print(f"quantile {word} {power} {at} {q!r} {float(distribution.ppf(q)):.15g}")


for mean, deviation in [(0.0, 1.0), (-3.5, 0.02), (40.0, 7.0)]:
    d = stats.norm(mean, deviation)
    show("gaussian", (mean, deviation), 1.5, d, [mean, mean + 2.5 * deviation, mean - 9 * deviation], d.logpdf)
for location, scale, freedom in [(0.0, 1.0, 2.0), (1.5, 0.3, 2.7), (0.0, 2.0, 12.0), (5.0, 1.0, 399.0),
                                 (5.0, 1.0, 5e4)]:
    d = stats.t(freedom, location, scale)
    show("student-t", (location, scale, freedom), 1.5, d, [location, location + 3 * scale, location - 20 * scale],
         d.logpdf)
for mean in [1e-3, 0.4, 3.0, 250.0, 9e5]:
    d = stats.poisson(mean)
    show("poisson", (mean,), 1.5, d, [0.0, float(round(mean)), float(round(3 * mean + 5))], d.logpmf)
for mean, dispersion in [(0.05, 3.0), (2.0, 1e-4), (2.0, 0.7), (90.0, 0.2), (4e4, 0.01), (300.0, 4.0)]:
    d = stats.nbinom(1 / dispersion, 1 / (1 + dispersion * mean))
    show("negative-binomial", (mean, dispersion), 1.5, d, [0.0, float(round(mean)), float(round(3 * mean + 5))],
         d.logpmf)
for mean, dispersion, power in [(1.0, 2.0, 1.5), (5.0, 0.4, 1.1), (0.02, 1.0, 1.3), (30.0, 1.5, 1.9), (8.0, 0.05, 1.5),
                                (400.0, 2.0, 1.5), (20.0, 0.01, 1.7)]:
    d = Tweedie(mean, dispersion, power)
    show("tweedie", (mean, dispersion), power, d, [0.0, mean / 3, mean, 2.5 * mean], d.logpdf)
