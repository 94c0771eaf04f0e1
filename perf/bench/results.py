# SPDX-License-Identifier: Apache-2.0
"""A result: one table that was measured, with all that a reader needs to judge it and to measure it again.

A file of JSON for each: "machine", "commit" and "date" of the run, "command" (a list of lines), "conditions" (one
line), "origin" ("measured", or what the figures were converted from), "columns" and "rows". A number stands as it was
printed: 0.40 stays 0.40, and 4,194,304 is 4194304.
"""

import datetime
import json
import os
import platform
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEYS = ("machine", "commit", "date", "command", "conditions", "origin", "columns", "rows")
NUMERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?$")


class Numeral(str):
    """A number of a file, digit by digit."""


def machine():
    """What this machine is, in a line."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(re.findall(r"^([a-z ]+?)\s*: *(.*)$", file.read(), re.MULTILINE))
    name = facts.get("model name", platform.machine())
    kind = " (family %s, model %s)" % (facts["cpu family"], facts["model"]) if "cpu family" in facts else ""
    return "%s%s, %d processors, Linux %s" % (name, kind, os.cpu_count(), platform.release())


def commit():
    """The sources' commit; None without a repository."""
    try:
        done = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        return done.stdout.strip() or None
    except OSError:
        return None


def new(columns, rows, command, conditions):
    """A result of now and here."""
    return {"machine": machine(), "commit": commit(), "date": datetime.date.today().isoformat(),
            "command": command, "conditions": conditions, "origin": "measured", "columns": columns,
            "rows": [[typed(cell) for cell in row] for row in rows]}


def typed(cell):
    """A text or a number as it is in a file: Numeral if it is one."""
    plain = str(cell).replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", str(cell)) else str(cell)
    return Numeral(plain) if NUMERAL.match(plain) else plain


def cell_to_json(cell):
    return cell if isinstance(cell, Numeral) else json.dumps(cell, ensure_ascii=False)


def write(path, result):
    """The file; rows take a line each, so that a comparison of versions shows what changed."""
    lines = [' "%s": %s' % (key, json.dumps(result[key], ensure_ascii=False)) for key in KEYS[:-1]]
    rows = ",\n".join("  [" + ", ".join(cell_to_json(cell) for cell in row) + "]" for row in result["rows"])
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + ',\n "rows": [\n' + rows + "\n ]\n}\n")


def read(path):
    """ValueError says what is wrong with the file."""
    with open(path, encoding="utf-8") as file:
        try:
            result = json.load(file, parse_float=Numeral, parse_int=Numeral)
        except json.JSONDecodeError as error:
            raise ValueError("%s: no JSON: %s" % (path, error)) from error
    missing = [key for key in KEYS if key not in result]
    if missing:
        raise ValueError("%s: there is no '%s'" % (path, missing[0]))
    for number, row in enumerate(result["rows"], 1):
        if len(row) != len(result["columns"]):
            raise ValueError("%s: row %d has %d cells, and there are %d columns"
                             % (path, number, len(row), len(result["columns"])))
    return result


def shown(cell):
    """As a page shows it: whole numbers with commas."""
    return "{:,}".format(int(cell)) if isinstance(cell, Numeral) and re.fullmatch(r"\d{4,}", cell) else cell


def is_figure(cell):
    return isinstance(cell, Numeral) or not cell or bool(re.match(r"[*]{0,2}[-+.]?\d", cell))


def markdown(result):
    """The table as lines of Markdown: columns of figures are on the right."""
    right = [all(is_figure(row[i]) for row in result["rows"]) for i in range(len(result["columns"]))]
    yield "| " + " | ".join(result["columns"]) + " |"
    yield "|" + "".join("--:|" if is_right else "---|" for is_right in right)
    for row in result["rows"]:
        yield "| " + " | ".join(shown(cell) for cell in row) + " |"
