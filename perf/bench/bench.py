# SPDX-License-Identifier: Apache-2.0
"""What the scripts that measure share: their options, the programs that they run, and their tables.

A table goes to standard output as Markdown. With --record FOLDER it is kept there, too, as NAME.json, from which
perf/bench/tables makes the pages.
"""

import argparse
import csv
import json
import math
import os
import shlex
import subprocess
import sys
import time

import results

TOP = results.TOP
LIMIT_S = 24 * 3600


def parser(doc):
    """The options of every script; doc is its help."""
    it = argparse.ArgumentParser(prog="perf/bench/" + os.path.basename(sys.argv[0]), description=doc,
                                 formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    it.add_argument("--build", metavar="FOLDER", type=os.path.abspath, default=os.path.join(TOP, "build"),
                    help="build folder (build in the sources)")
    it.add_argument("--record", metavar="FOLDER", help="keep each table there, as JSON; perf/bench/tables reads it")
    return it


def read(it, passes_on=None):
    """The options. passes_on names the program that gets what follows "--", as options.passed."""
    words, passed = sys.argv[1:], []
    if passes_on:
        it.epilog = (it.epilog or "") + "What follows -- goes to %s." % passes_on
        it.usage = it.format_usage()[len("usage: "):].rstrip() + " [-- OPTION...]"
        if "--" in words:
            at = words.index("--")
            words, passed = words[:at], words[at + 1:]
    options = it.parse_args(words)
    options.passed = passed
    if options.record and not os.path.isdir(options.record):
        it.error("--record: there is no folder '%s'" % options.record)
    return options


def positive(text):
    """A type of arguments."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def fail(text, status=1):
    print("perf/bench/%s: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    sys.exit(status)


def start(main):
    """Runs a script's main."""
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit(130)


# ---- programs --------------------------------------------------------------------------------------------------------


def programs(options, *names):
    """The paths of a build's programs."""
    paths = [os.path.join(options.build, name) for name in names]
    for path in paths:
        if not os.access(path, os.X_OK):
            fail("there is no %s: build first, with 'make all %s'" % (path, " ".join(names)), 2)
    return paths


def can_import(python, modules, limit_s=None):
    """Has this Python the modules, named with commas?"""
    try:
        asked = subprocess.run([python, "-c", "import " + modules], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=limit_s, check=False)
        return asked.returncode == 0
    except OSError:
        return False


def mpi_environment(**more):
    """This one's, in which mpirun of Open MPI 4 and 5 starts more ranks than processors, and as root."""
    return dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", **more)


def run(command, environment=None, limit_s=LIMIT_S):
    """What a command prints; RuntimeError if it fails."""
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise RuntimeError("%s: exit status %d\n%s" % (shlex.join(command), done.returncode, done.stderr[-2000:]))
    return done.stdout


def last_object(text):
    """Of the last line, which is JSON."""
    return json.loads(text.strip().splitlines()[-1])


def seconds(command):
    """How long a command takes."""
    begin = time.monotonic()
    run(command)
    return time.monotonic() - begin


# ---- tables ----------------------------------------------------------------------------------------------------------


def figure(value, digits=3):
    """A number with so many significant digits, without an exponent."""
    if not value:
        return "0"
    return "%.*f" % (max(0, digits - 1 - math.floor(math.log10(abs(value)))), value)


def plural(count, word):
    return "%d %s%s" % (count, word, "" if count == 1 else "s")


def write_rows(path, series, back=0):
    """A table in long form, of rows of time and value by series, without the last `back` rows of each."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["unique_id", "ds", "y"])
        for key, rows in series.items():
            out.writerows((key, *row) for row in rows[:len(rows) - back])


def read_forecasts(path, count):
    """The last `count` columns, which are quantiles, by the first one, which is the series."""
    rows = {}
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            rows.setdefault(row[0], []).append([float(value) for value in row[-count:]])
    return rows


def own_command():
    """How to measure it again: without the folders of this machine."""
    words, own = iter(sys.argv[1:]), ["perf/bench/" + os.path.basename(sys.argv[0])]
    for word in words:
        if word in ("--record", "--build"):
            next(words)
        elif os.path.isdir(word):
            own.append("FOLDER")
        elif os.path.isabs(word):
            own.append(os.path.basename(word))
        elif not word.startswith(("--record=", "--build=")):
            own.append(word)
    return shlex.join(own)


def show(options, name, columns, rows, conditions, command=None):
    """A table: a list of columns' names, rows of texts and numbers, a line on how it was measured."""
    result = results.new(columns, rows, [command or own_command()], conditions)
    print("\n".join(results.markdown(result)) + "\n\n" + conditions, flush=True)
    if options.record:
        results.write(os.path.join(options.record, name + ".json"), result)
