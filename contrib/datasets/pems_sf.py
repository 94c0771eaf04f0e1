#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Occupancy of San Francisco's freeways (UCI 204, PEMS-SF), unpacked into one table for examples/pems-sf.yaml.

FOLDER has PEMS_train, PEMS_test, PEMS_trainlabels, PEMS_testlabels, randperm and stations_list; each may be compressed.
A line of PEMS_train or PEMS_test is one day, [sensor; sensor; ...] with 144 rates each; randperm has which day of the
record each line is, the training lines first, then the test lines; the labels are days of the week, from 1.

The days are put in order again and the ten-minute rates averaged by hour. As in the published experiment the first and
the last hour of each sensor are left out. Lines are read one at a time; their hourly means are kept.
"""

import argparse
import array
import math
import os

from files import Wrong, main, reading, writing

SLOTS, HOURS = 144, 24
PER_HOUR = SLOTS // HOURS


def numbers(text):
    """The numbers of a text with brackets; ValueError if there is something else."""
    values = [float(word) for word in text.replace("[", " ").replace("]", " ").split()]
    if "_" in text or not all(map(math.isfinite, values)):
        raise ValueError(text)
    return values


def read_list(folder, name):
    """A file with one line of whole numbers."""
    path = os.path.join(folder, name)
    with reading(path) as file:
        try:
            values = numbers(file.readline())
        except ValueError:
            raise Wrong(f"file '{path}', line 1: something else than a number") from None
    if not values:
        raise Wrong(f"file '{path}', line 1: a list of numbers is missing")
    return [int(value) for value in values]


def hourly_means(rates):
    """Summed from the left, in double, and rounded to float: what the published experiment's float32 has."""
    for hour in range(HOURS):
        total = 0.0
        for rate in rates[hour * PER_HOUR : (hour + 1) * PER_HOUR]:
            total += rate
        yield total / PER_HOUR


def read_day(line, station_count):
    """One line: each sensor's hourly means, one after the other; ValueError: the line is wrong, and why."""
    sensors = line.split(";")
    means = array.array("f")
    if len(sensors) != station_count:
        raise ValueError(f"{len(sensors)} sensors; stations_list has {station_count}")
    for text in sensors:
        try:
            rates = numbers(text)
        except ValueError:
            raise ValueError("something else than a number") from None
        if len(rates) != SLOTS:
            raise ValueError(f"{len(rates)} numbers of a sensor, not {SLOTS}")
        means.extend(hourly_means(rates))
    return means


def read_days(folder, name, count, station_count):
    """The first lines of a file of days."""
    path = os.path.join(folder, name)
    with reading(path) as file:
        for number in range(1, count + 1):
            line = file.readline()
            if not line:
                raise Wrong(f"file '{path}', line {number}: fewer days than labels")
            try:
                yield read_day(line, station_count)
            except ValueError as error:
                raise Wrong(f"file '{path}', line {number}: {error}") from None


def convert(given):
    folder = given.folder
    order = read_list(folder, "randperm")
    train, test = read_list(folder, "PEMS_trainlabels"), read_list(folder, "PEMS_testlabels")
    stations = read_list(folder, "stations_list")
    labels = train + test
    if len(order) != len(labels):
        raise Wrong(f"'{folder}': {len(order)} days in randperm, {len(labels)} labels")
    if sorted(order) != list(range(1, len(order) + 1)):
        raise Wrong(f"'{folder}/randperm' is not a permutation of its {len(order)} days")
    days, weekdays = [None] * len(order), [0] * len(order)
    means = list(read_days(folder, "PEMS_train", len(train), len(stations)))
    means += read_days(folder, "PEMS_test", len(test), len(stations))
    for day, label, of_day in zip(order, labels, means):
        weekdays[day - 1], days[day - 1] = label, of_day
    with writing(given.out) as file:
        file.write("id,hours_from_start,sensor_day,time_on_day,day_of_week,values\n")
        for s, station in enumerate(stations):
            for i in range(1, len(days) * HOURS - 1):
                day, hour = divmod(i, HOURS)
                mean = days[day][s * HOURS + hour]
                file.write(f"{station},{i},{day},{hour},{weekdays[day]},{mean:.9g}\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="the table; - is standard output")
    return parser.parse_args()


if __name__ == "__main__":
    main(convert, arguments())
