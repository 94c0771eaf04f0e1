# SPDX-License-Identifier: Apache-2.0
"""Every zone of this host, by the program given and by Python's zoneinfo, at random moments and around changes."""
import datetime
import random
import subprocess
import sys
import zoneinfo

EPOCH = datetime.datetime(1970, 1, 1)
END = 2145916800  # 2038-01-01
SECOND = datetime.timedelta(seconds=1)


def offset_at(zone, utc):
    """Seconds east of UTC at a moment."""
    moment = (EPOCH + utc * SECOND).replace(tzinfo=datetime.timezone.utc).astimezone(zone)
    return int(moment.utcoffset().total_seconds())


def moments_of(zone, shown):
    """The moments at which the clock shows a time, in order."""
    found = set()
    for fold in 0, 1:
        utc = shown - int((EPOCH + shown * SECOND).replace(tzinfo=zone, fold=fold).utcoffset().total_seconds())
        if utc + offset_at(zone, utc) == shown:
            found.add(utc)
    return sorted(found)


def changes(zone, draw):
    """Moments at which the offset changes, each to the second, in some of the years."""
    for year in draw.sample(range(68), 8):
        begin = int(year * 365.2425 * 86400)
        for day in range(begin, begin + 366 * 86400, 3 * 86400):
            low, high = day, day + 3 * 86400
            before = offset_at(zone, low)
            if before == offset_at(zone, high):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
            yield high


def main():
    draw = random.Random(2024)
    names = sorted(name for name in zoneinfo.available_timezones() if not name.startswith("posix"))
    always = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Europe/Dublin",
              "Africa/Casablanca", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "UTC"]
    questions, answers = [], []
    for name in always + draw.sample(names, 60):
        zone = zoneinfo.ZoneInfo(name)
        times = [draw.randrange(END) for _ in range(40)]
        # Beyond the table's end: the years are the same 400 years later, for us and for Python.
        times += [draw.randrange(END, 7 * END) for _ in range(10)] if name in always else []
        for change in changes(zone, draw) if name in always else ():
            times += [change + d for d in (-7201, -3600, -1800, -1, 0, 1, 1799, 1800, 3599, 3600, 7200)]
        for utc in times:
            for shown in utc, utc + offset_at(zone, utc):
                questions.append(f"{name} {utc} {shown}\n")
                moments = moments_of(zone, shown)
                answers.append([offset_at(zone, utc), len(moments), *moments, 0, 0][:4])
    said = subprocess.run(sys.argv[1:], input="".join(questions), stdout=subprocess.PIPE, text=True, check=True).stdout
    kinds = [0, 0, 0]
    for question, answer, line in zip(questions, answers, said.splitlines()):
        if [int(word) for word in line.split()] != answer:
            sys.exit(f"{question.strip()}: {line}, and Python has {answer}")
        kinds[answer[1]] += 1
    # The last line is the test's own.
    if len(said.splitlines()) < len(questions) or min(kinds) < 50:
        sys.exit(f"{len(said.splitlines())} answers to {len(questions)} questions; passed never, once, twice: {kinds}")
    print(f"{len(questions)} questions; passed never, once, twice: {kinds}")


main()
