#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Corporación Favorita's grocery sales (a Kaggle competition), joined into one table for examples/favorita.yaml.

FOLDER has train.csv, stores.csv, items.csv, oil.csv, transactions.csv and holidays_events.csv; each may end in .gz.
The table has one row for each store, item and day from the first to the last day on which the item was sold there.

train.csv, which is in order of date, is streamed twice: first to find the trajectories (a store and an item) that ever
had negative sales, which the published experiment leaves out; then to join its rows with the small tables. Days of a
trajectory without a row become rows without sales on which it was not open, so that prices of oil and holidays are
known on them, too. Memory grows with trajectories and days, not with rows.

Transactions that are not known and oil before its first price are -1; later gaps of oil have the price before.
Transferred holidays are left out.
"""

import argparse
import csv
import datetime
import functools
import os

from files import Wrong, main, reading, writing

HEADER = (
    "traj_id,date,unit_sales,onpromotion,open,store_nbr,item_nbr,city,state,type,cluster,family,class,perishable,"
    "transactions,oil,national_hol,regional_hol,local_hol\n"
)
SALES = ["date", "store_nbr", "item_nbr", "unit_sales", "onpromotion"]
DAY = datetime.timedelta(days=1)


@functools.lru_cache(maxsize=20000)
def day_of(text):
    """Returns the day; None if the text is not one."""
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        return None


def quote(text):
    """A field as CSV has it."""
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text


class Table:
    """A table's rows: the columns that are asked for, in that order."""

    def __init__(self, folder, name, columns):
        self.path = os.path.join(folder, name)
        self.columns = columns
        self.row = 1  # as an editor counts
        if not os.path.exists(self.path) and os.path.exists(self.path + ".gz"):
            self.path += ".gz"

    def __iter__(self):
        with reading(self.path) as file:
            rows = csv.reader(file, strict=True)
            try:
                header = next(rows, [])
                if header:
                    header[0] = header[0].removeprefix("\ufeff")
                for column in self.columns:
                    if header.count(column) != 1:
                        raise Wrong(f"file '{self.path}' has no column '{column}'; it has {', '.join(header)}")
                where = [header.index(column) for column in self.columns]
                for row in rows:
                    self.row = rows.line_num
                    if row and len(row) != len(header):
                        raise Wrong(f"file '{self.path}', row {self.row}: {len(row)} fields, not {len(header)}")
                    if row:
                        yield [row[k] for k in where]
            except csv.Error as error:
                raise Wrong(f"file '{self.path}', row {rows.line_num}: {error}") from None

    def wrong(self, column, text, should):
        return Wrong(f"file '{self.path}', row {self.row}, column '{column}': '{text}' is not {should}")

    def day(self, text):
        day = day_of(text)
        if day is None:
            raise self.wrong("date", text, "a day like 2015-01-01")
        return day


class Favorita:
    def __init__(self, folder, first, last):
        self.folder, self.first, self.last = folder, first, last
        stores = list(Table(folder, "stores.csv", ["store_nbr", "city", "state", "type", "cluster"]))
        items = Table(folder, "items.csv", ["item_nbr", "family", "class", "perishable"])
        self.stores = {store: ",".join(map(quote, rest)) for store, *rest in stores}
        self.cities = {store: city for store, city, *_ in stores}
        self.states = {store: state for store, _, state, *_ in stores}
        self.items = {item: ",".join(map(quote, rest)) for item, *rest in items}
        table = Table(folder, "transactions.csv", ["date", "store_nbr", "transactions"])
        self.transactions = {(table.day(date), store): count for date, store, count in table}
        self.oil = self.read_oil()
        self.holidays = self.read_holidays()

    def read_oil(self):
        """Each day's price: its own, or the one before, which may be some days older than the first day."""
        table = Table(self.folder, "oil.csv", ["date", "dcoilwtico"])
        known = {table.day(date): price for date, price in table if table.day(date) and price}
        prices, price, day = {}, "-1", self.first - 31 * DAY
        while day <= self.last:
            price = known.get(day, price)
            prices[day] = price
            day += DAY
        return prices

    def read_holidays(self):
        """By day, locale, and the locale's name where it is not the nation."""
        columns = ["date", "locale", "locale_name", "description", "transferred"]
        table = Table(self.folder, "holidays_events.csv", columns)
        holidays = {}
        for date, locale, name, description, transferred in table:
            day = table.day(date)
            if transferred.lower() != "true":
                holidays[day, locale, "" if locale == "National" else name] = quote(description)
        return holidays

    def sales(self):
        """The table of sales, and its rows in the span."""
        table = Table(self.folder, "train.csv", SALES)
        for date, *rest in table:
            day = table.day(date)
            if self.first <= day <= self.last:
                yield table, day, *rest

    def line(self, table, day, store, item, sales, promotion, is_open):
        if store not in self.stores:
            raise table.wrong("store_nbr", store, "in stores.csv")
        if item not in self.items:
            raise table.wrong("item_nbr", item, "in items.csv")
        holiday = [
            self.holidays.get(key, "")
            for key in (
                (day, "National", ""),
                (day, "Regional", self.states[store]),
                (day, "Local", self.cities[store]),
            )
        ]
        return (
            f"{store}_{item},{day},{sales},{promotion},{is_open},{store},{item},{self.stores[store]},"
            f"{self.items[item]},{self.transactions.get((day, store), -1)},{self.oil[day]},{','.join(holiday)}\n"
        )

    def write(self, out):
        negative = {(store, item) for _, _, store, item, sales, _ in self.sales() if sales.startswith("-")}
        before = {}
        with writing(out) as file:
            file.write(HEADER)
            for table, day, store, item, sales, promotion in self.sales():
                if (store, item) in negative:
                    continue
                gap = before.get((store, item), day - DAY) + DAY
                if gap > day:
                    should = "after this store's and item's row before (train.csv is in order of date)"
                    raise table.wrong("date", day, should)
                while gap < day:
                    file.write(self.line(table, gap, store, item, "", "", 0))
                    gap += DAY
                before[store, item] = day
                file.write(self.line(table, day, store, item, sales, promotion, 1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--first", metavar="DAY", default="2015-01-01", help="the table's first day (%(default)s)")
    parser.add_argument("--last", metavar="DAY", default="2016-06-01", help="its last one (%(default)s)")
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="the table; - is standard output")
    given = parser.parse_args()
    first, last = day_of(given.first), day_of(given.last)
    if not first or not last or first > last:
        parser.error("'--first' and '--last' must be days like 2015-01-01, in order")
    return given.folder, first, last, given.out


def convert(given):
    folder, first, last, out = given
    Favorita(folder, first, last).write(out)


if __name__ == "__main__":
    main(convert, arguments())
