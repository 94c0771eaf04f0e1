#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ask halay-tft serve, beside what predict wrote: serve.py PROGRAM FOLDER IS_EXACT (tests/tft/serve.sh calls it).

IS_EXACT: products of this build have the same bits, however many rows they have."""

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

PROGRAM, FOLDER, IS_EXACT = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
LIMIT = 1 << 20  # of bodies
LONG = 300  # seconds after which whatever is waited for will not come
failed = []


def expect(is_so, what):
    if not is_so:
        failed.append(what)
        print("failed:", what)


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


class Server:
    """A server while it lives, and what it says."""

    def __init__(self, run, *options):
        if "--timeout" not in options:  # a busy machine takes longer than usual for a forecast
            options = *options, "--timeout", str(LONG)
        self.process = subprocess.Popen([PROGRAM, "serve", os.path.join(FOLDER, run), "--listen", "0", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if " at http://" not in line:
            sys.exit(f"no server: {line}{self.process.stderr.read()}")
        host, port = line.rsplit("//", 1)[1].strip().rsplit(":", 1)
        self.place = host, int(port)

    def connect(self):
        return http.client.HTTPConnection(*self.place, timeout=LONG)

    def ask(self, method, path, body=None, **headers):
        connection = self.connect()
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def post(self, body, kind="application/json", query="", **headers):
        body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        answer, text = self.ask("POST", "/invocations" + query, body, Content_Type=kind, **headers)
        return answer.status, text

    def metric(self, name):
        _, text = self.ask("GET", "/metrics")
        return float(next(line for line in text.split("\n") if line.startswith(name + " ")).split()[1])

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=LONG)
        expect(self.process.returncode == 0, f"the server ended with {self.process.returncode}: {errors}")
        return out, errors


def columns(text, kinds):
    head, *rows = [line.split(",") for line in text.strip().split("\n")]
    return {name: [kinds[name](row[i]) if row[i] else None for row in rows] for i, name in enumerate(head)}


KINDS = {"id": str, "t": int, "load": float, "heat": float}
PAST, FUTURE, ALL = read("past.csv"), read("future.csv"), read("all.csv")
JSON = {"instances": [{"columns": columns(PAST, KINDS), "future": columns(FUTURE, KINDS)}]}
ROWS = {name: [json.loads(line) for line in read(name + ".jsonl").split("\n") if line] for name in ("run", "newer")}
WHY = [json.loads(line) for line in read("run.why.jsonl").split("\n") if line]


def window(entity, end):
    """CSV with the last rows of an entity before a moment, and their future: each is another forecast."""
    head, *rows = ALL.strip().split("\n")
    rows = [row.split(",") for row in rows if row.startswith(entity)]
    kept = rows[end - 30:end] + [row[:2] + ["", row[3]] for row in rows[end:end + 6]]
    return "\n".join([head] + [",".join(row) for row in kept]) + "\n"


def same_numbers(server):
    for body, kind in ((ALL, "text/csv"), (ALL, "text/csv; charset=utf-8")):
        expect(server.post(body, kind) == (200, read("run.csv")), f"{kind} is not predict's")
    code, text = server.post(JSON)
    expect(code == 200 and json.loads(text) == {"predictions": [{"forecasts": ROWS["run"]}]}, "JSON is not predict's")
    code, text = server.post(ALL, "text/csv", Accept="application/json;q=1, */*")
    expect(code == 200 and json.loads(text)["predictions"][0]["forecasts"] == ROWS["run"], "CSV to JSON")
    code, text = server.post(JSON, Accept="text/csv")
    expect((code, text) == (200, read("run.csv")), "JSON to CSV")
    lines = "\n".join(json.dumps(JSON["instances"][0]) for _ in range(3)) + "\n\n"
    code, text = server.post(lines, "application/jsonlines")
    expect(code == 200 and [json.loads(line)["forecasts"] for line in text.split("\n") if line] == 3 * [ROWS["run"]],
           "JSON lines")
    code, text = server.post({"instances": 2 * JSON["instances"], "explain": True, "quantiles": [0.9, 0.1]})
    first = json.loads(text)["predictions"][1] if code == 200 else {}
    expect(first.get("explanations") == WHY, "explanations are not predict's")
    expect([list(row)[4:] for row in first.get("forecasts", [])] == len(ROWS["run"]) * [["load_0.9", "load_0.1"]],
           "other quantiles than those that were asked for")
    heat = [float(row.split(",")[3]) for row in PAST.split("\n") if row.startswith("a,")]
    past = {"id": ["a"] * 30, "t": list(range(370, 400)), "load": [60.0] + 29 * [None], "heat": heat[-30:]}
    code, text = server.post({"instances": [{**JSON["instances"][0], "columns": past}]})
    expect(code == 200 and json.loads(text)["predictions"][0]["warning"].startswith("1 of 1 forecasts rest on filled"),
           f"a forecast from filled values is not named: {text}")
    code, text = server.post(ALL, "text/csv", "?quantiles=0.5")
    expect(code == 200 and text.startswith("id,origin,t,horizon,load_0.5\n"), "quantiles of CSV")


def is_like(text, other):
    """The same forecasts, to the bit or to rounding."""
    if IS_EXACT or text.count("\n") != other.count("\n"):
        return text == other
    for line, like in zip(text.split("\n")[1:-1], other.split("\n")[1:-1]):
        line, like = line.split(","), like.split(",")
        if line[:4] != like[:4] or any(abs(float(x) - float(y)) > 1e-5 * abs(float(y))
                                       for x, y in zip(line[4:], like[4:])):
            return False
    return True


def together(server):
    """What comes at the same time as others is the same as alone."""
    bodies = [window(entity, end) for entity in "abc" for end in range(100, 116)]
    alone = [server.post(body, "text/csv") for body in bodies]
    expect(all(code == 200 for code, _ in alone) and len(set(alone)) == len(bodies), "forecasts of windows")
    found = [None] * len(bodies)

    def work(k):
        for i in range(k, len(bodies), 16):
            found[i] = server.post(bodies[i] if i % 7 else "id,t,load,heat\na,x,1,2\n", "text/csv")

    for _ in range(4):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, (code, text) in enumerate(found):
            expect(code == 200 and is_like(text, alone[i][1]) if i % 7 else code == 400,
                   f"request {i} among others: {code} {text[:200]}")
    expect(server.metric("halay_tft_serve_batches_total") < 5 * len(bodies), "nothing was forecast together")


def refusals(server):
    good = JSON["instances"][0]
    bad_column = json.loads(json.dumps(good))
    bad_column["columns"]["load"][6] = "much"
    text_column = json.loads(json.dumps(good))
    text_column["columns"]["load"] = ["much"] + [None] * (len(good["columns"]["load"]) - 1)
    short = {"columns": {**good["columns"], "load": [1, 2]}}
    few = {"columns": {"id": ["a"] * 3, "t": [0, 1, 2], "load": [1, 2, 3], "heat": [1, 2, 3]},
           "future": {"id": ["a"] * 6, "t": list(range(3, 9)), "heat": [1] * 6}}
    stranger = json.loads(json.dumps(good).replace('"a"', '"z"'))
    warm = {**good, "future": {**good["future"], "heat": [None, "warm", *(len(good["future"]["heat"]) - 2) * [None]]}}
    liar = json.loads(json.dumps(good).replace('"a"', '"a, row 77, column \'x\': y"'))
    late = {**good, "future": {name: values[:5] for name, values in good["future"].items()}}
    cases = [  # code, field, row, a part of the reason, body
        (400, None, 1, "not JSON", '{"instances": [{"columns": {"t": [1, 2'),
        (400, None, 1, "not JSON", '{"instances": [{"columns": {"t": [NaN]}}]}'),
        (400, None, 1, "not JSON", b'{"instances": \xff}'),
        (400, None, 1, "not JSON", '{"instances": [], "instances": []}'),
        (400, None, None, "unknown key 'instance'", {"instance": []}),
        (400, None, None, "not an object", [1]),
        (400, "instances", None, "missing", {}),
        (400, "instances", None, "missing", {"instances": []}),
        (400, "instances[1]", None, "not an object", {"instances": [good, 3]}),
        (400, "instances[0]", None, "unknown key 'column'", {"instances": [{"column": {}}]}),
        (400, "instances[0].columns", None, "not an object of columns", {"instances": [{"columns": {}}]}),
        (400, "instances[0].columns.t", None, "a list of values", {"instances": [{"columns": {"t": 3}}]}),
        (400, "instances[0].columns.load", None, "it has 2 values", {"instances": [short]}),
        (400, "instances[0].columns.load", 7, "texts and numbers", {"instances": [bad_column]}),
        (400, "instances[1].columns.load", 1, "'much' is not a number", {"instances": [good, text_column]}),
        (400, "instances[0].columns.t", 1, "a number, a text or null", {"instances": [{"columns": {"t": [[]]}}]}),
        (400, "instances[0]", None, "no column 'id'", {"instances": [{"columns": {"t": [1]}, "future": {"t": [2]}}]}),
        (400, "instances[0]", None, "'a' has 3 rows", {"instances": [few]}),
        (400, "instances[0]", 1, "'z' was not seen in training", {"instances": [stranger]}),
        (400, "instances[0]", None, "has no row of", {"instances": [late]}),
        (400, "instances[0]", None, "no row of the future", {"instances": [{"columns": good["columns"]}]}),
        (400, "instances[0].future.heat", 2, "'warm' is not a number", {"instances": [warm]}),
        (400, "instances[0].columns.t", 1, "'-9", {"instances": [{"columns": {**few["columns"], "t": 3 * [-2**63]}}]}),
        (400, "instances[0]", 1, "was not seen", {"instances": [liar]}),
        (400, "quantiles", None, "above 0 and below 1", {"instances": [good], "quantiles": [2]}),
        (400, None, None, "does not forecast the quantile 0.3", {"instances": [good], "quantiles": [0.3]}),
        (400, "calibrate", None, "not one of none", {"instances": [good], "calibrate": 1}),
        (400, None, None, "no calibration", {"instances": [good], "calibrate": "conformal"}),
        (400, "explain", None, "neither true nor false", {"instances": [good], "explain": "yes"}),
    ]
    for code, field, row, reason, body in cases:
        found, text = server.post(body)
        error = json.loads(text)["error"] if found >= 400 else {}
        expect((found, error.get("field"), error.get("row")) == (code, field, row) and reason in error["reason"],
               f"{reason}: {found} {text[:300]}")
    for code, field, row, reason, body in [
            (400, None, None, "is empty", ""),
            (400, None, None, "no column 'id'", "x,y\n1,2\n"),
            (400, "t", 2, "'x' is not", "id,t,load,heat\na,x,1,2\n"),
            (400, "load", 3, "'much' is not a number", "id,t,load,heat\na,1,1,2\na,2,much,2\n"),
            (400, None, 3, "3 fields, the header has 4", "id,t,load,heat\na,1,1,2\na,2,2\n"),
            (400, None, 2, "was not seen", "id,t,load,heat\n\"a, row 77, column 'x': y\",1,1,1\n"),
            (400, "load", 2, "'much' is not a number", "id,t,load,heat\na,1,much,1\n"),
            (400, None, None, "no row of the future", PAST),
            (400, None, 2, "a zero byte", "id,t,load,heat\na,1,\0,2\n"),
            (400, None, 2, "a quote is not closed", 'id,t,load,heat\n"a,1,1,2\n'),
            (400, None, 1, "a zero byte", b"\x1f\x8b\x08\0\0\0\0\0\0\3\n")]:
        name = "?name=b%2C%20row%2077%2C%20column%20%27x%27%3A%20y" if body else ""  # not a place
        found, text = server.post(body, "text/csv", name)
        error = json.loads(text)["error"]
        expect((found, error.get("field"), error.get("row")) == (code, field, row) and reason in error["reason"],
               f"{reason}: {found} {text}")
    for code, kind, query, accept in ((415, "text/html", "", "*/*"), (406, "text/csv", "", "text/html"),
                                      (406, "text/csv", "?explain=1", "text/csv"),
                                      (400, "text/csv", "?explain=maybe", "text/csv"),
                                      (400, "text/csv", "?quantiles=0.1;0.2", "text/csv"),
                                      (400, "text/csv", "?calibrate=well", "text/csv")):
        found, text = server.post(ALL, kind, query, Accept=accept)
        expect(found == code and json.loads(text)["error"]["reason"], f"{kind} {query} {accept}: {found} {text}")
    answer, text = server.ask("GET", "/invocations")
    expect(answer.status == 405 and answer.getheader("Allow") == "POST", "a wrong method")
    answer, text = server.ask("GET", "/nothing")
    expect(answer.status == 404 and "POST /invocations" in text, "an unknown path")


def types(server):
    """Which type an answer has: parameters, case and weights."""
    csv, json_type, lines = "text/csv", "application/json", "application/jsonlines"
    for accept, wanted in [
            (None, csv), ("", csv), ("*/*", csv), ("text/*", csv), ("application/*", json_type), ("TEXT/CSV", csv),
            ("application/json;verbose=true", json_type), ("APPLICATION/JSONLINES", lines),
            ("application/x-ndjson", lines), ("text/html, application/json;q=0.9, */*;q=0.1", json_type),
            ("application/json;q=0.1, text/csv;q=0.9", csv),
            ("application/json; Q=0.25 , text/csv; q=0.250", json_type),
            ("application/json;q=0, text/csv", csv), ("application/json;q=0.000, */*", csv),
            ("text/csv;q=0, */*;q=0.5", json_type), ("*/*;q=0.1, text/csv;q=0", json_type),
            ('application/json;note="a,text/csv";q=0.5, application/jsonlines;q=0.6', lines),
            ("application/json, text/csv", json_type), ("text/csv, application/json", csv), (" , text/csv", csv),
            ("text/html", None), ("*/*;q=0", None), ("image/png, text/csv;q=0", None), ("text", None), ("*", None),
            ("text/csvx", None), ("textx/*", None), ("application/jsonx, tex/csv", None)]:
        headers = {} if accept is None else {"Accept": accept}
        answer, _ = server.ask("POST", "/invocations", ALL, Content_Type="Text/CSV ; header=present", **headers)
        found = answer.status, answer.getheader("Content-Type")
        expect(found == ((200, wanted) if wanted else (406, json_type)), f"Accept: {accept}: {found}")
    for code, kind, headers in [
            (200, "text/csv;charset=UTF-8", {}), (200, 'TEXT/CSV; charset="utf-8"', {}), (200, "text/csv;a=b;c", {}),
            (200, "text/csv", {"Content_Encoding": "identity"}), (415, "text/csv", {"Content_Encoding": "gzip"}),
            (415, "text/csv; charset=iso-8859-1", {}), (415, "application/octet-stream", {}), (415, "", {}),
            (415, "application/x-www-form-urlencoded", {}), (415, "*/*", {})]:
        found, text = server.post(ALL, kind, **headers)
        expect(found == code and (code == 200 or json.loads(text)["error"]["reason"]), f"{kind} {headers}: {found}")
    answer, text = server.ask("POST", "/invocations", ALL)
    expect(answer.status == 415 and "text/csv" in text, f"no type: {text}")


def quoted(server):
    """Errors that quote long values are text, wherever a value is cut."""
    for letter in "é", "測", "😀", "\xff":
        for before in range(4):
            value = ("x" * before + letter * 300)
            raw_value = value.encode("latin-1" if letter == "\xff" else "utf-8")
            found, text = server.post(b"id,t,load,heat\na,1,%s,2\n" % raw_value, "text/csv")
            error = json.loads(text)["error"]
            expect((found, error.get("row"), error.get("field")) == (400, 2, "load") and
                   "is not a number" in error["reason"] and f"'{value[:9]}"[:before + 2] in error["reason"].replace(
                       "?", "\xff"), f"{letter} after {before}: {found} {text}")
            if letter != "\xff":
                found, text = server.post({"instances": [{value: 1}]})
                reason = json.loads(text)["error"]["reason"]
                expect(found == 400 and "unknown key" in reason, f"{letter}: {found} {text}")
                found, text = server.post({"instances": [{"columns": {value: {}}}]})
                expect(found == 400 and "a list" in json.loads(text)["error"]["reason"], f"{letter}: {found} {text}")
    with open(os.path.join(FOLDER, "quoted.csv"), "w", encoding="utf-8") as file:
        file.write("id,t,load,heat\na,1," + 300 * "測" + ",2\n")
    done = subprocess.run([PROGRAM, "predict", "--checkpoint", os.path.join(FOLDER, "run"), file.name, "-o",
                           os.path.join(FOLDER, "none.csv")], stderr=subprocess.PIPE, check=False)  # fmt: skip
    expect(done.returncode == 1 and "is not a number" in done.stderr.decode(), f"predict: {done.stderr}")


def secrets(_):
    """A request without the token is refused; without a token other hosts are not served."""
    path = os.path.join(FOLDER, "token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        file.write("s3cret-word and more\n")
    for options in ["--token-file", path], ["--token-file", path, "--listen", "0.0.0.0:0"]:
        server = Server("run", *options)
        server.place = "127.0.0.1", server.place[1]
        for path_of in "/ping", "/metrics", "/openapi.json":
            expect(server.ask("GET", path_of)[0].status == 401, f"{path_of} without a token")
        expect(server.post(ALL, "text/csv")[0] == 401, "forecasts without a token")
        expect(server.post(ALL, "text/csv", Authorization="Bearer s3cret")[0] == 401, "half a token")
        expect(server.post(ALL, "text/csv", Authorization="Bearer s3cret-word") == (200, read("run.csv")), "a token")
        server.stop()
    server = Server("run", "--insecure", "--listen", "0.0.0.0:0")
    server.place = "127.0.0.1", server.place[1]
    expect(server.ask("GET", "/ping")[0].status == 200, "--insecure")
    server.stop()
    os.chmod(path, 0o644)
    for reason, *options in [("--token-file, or --insecure", "--listen", "0.0.0.0:0"),
                             ("other users can read", "--token-file", path),
                             ("cannot open", "--token-file", path + ".none"),
                             ("is empty", "--token-file", "/dev/null")]:
        done = subprocess.run([PROGRAM, "serve", os.path.join(FOLDER, "run"), *options], stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, timeout=LONG, check=False)  # fmt: skip
        expect(done.returncode != 0 and reason in done.stderr and not done.stdout, f"{reason}: {done.stderr}")


def raw(server, data, answer=b"", count=0):
    """Send bytes as they are; what comes back until the other side ends the connection, or this number of an answer."""
    with socket.create_connection(server.place, timeout=LONG) as link:
        heard = b""
        try:
            link.sendall(data)
            while True:
                got = link.recv(65536)
                heard += got
                if not got or count and heard.count(answer) == count:
                    return heard
        except ConnectionError:
            return heard


def hostile(server):
    post = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
    one = post + b"Content-Length: %d\r\n\r\n" % len(ALL) + ALL.encode()
    heard = raw(server, one + one + b"\0garbage\r\n\r\n", read("run.csv").encode(), 2)
    expect(heard.count(b"HTTP/1.1 200") == 2, "garbage behind two requests on one connection")
    expect(b" 200 " not in raw(server, post + b"Content-Length: -3\r\n\r\n"), "a negative length")
    expect(b" 413 " in raw(server, post + b"Content-Length: 1000000000\r\n\r\n"), "a body of a gigabyte")
    long = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (LIMIT + 1, b"x" * (LIMIT + 1))
    expect(b" 413 " in raw(server, post + b"Connection: close\r\n" + long), "a body whose length nobody says")
    expect(server.ask("GET", "/ping")[0].status == 200, "it no longer answers")


def peak(server):
    """The most memory that the server has had, in MiB."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024


def greedy():
    """Small bodies whose rows leave large gaps take little memory."""
    server = Server("run")
    before = peak(server)
    strangers = "".join(f"s{i},{t},1,1\n" for i in range(20000) for t in (0, 700))
    names = "".join(f"{name},{t},1,1\n" for name in "abc" for t in (0, 100100))
    late = "".join(f"{name},{t},{y},1\n" for name in "abc" for t, y in ((0, 1), (1, 2), (100000, "")))
    code, text = server.post("id,t,load,heat\n" + strangers, "text/csv")
    error = json.loads(text)["error"]
    expect((code, error.get("row")) == (400, 2) and "not seen in training" in error["reason"], f"unknown ids: {text}")
    expect(peak(server) < before + 20, f"unknown ids: {before} MiB grew to {peak(server)}")
    for rows, codes in (names, (200, 400, 413)), (late, (400, 413)):
        code, text = server.post("id,t,load,heat\n" + rows, "text/csv")
        expect(code in codes, f"large gaps: {code} {text[:300]}")
    cells = [row.split(",") for row in (ALL.split("\n")[1:-1])]
    old = {c[0]: f"{c[0]},-90000,70,12\n" for c in cells}  # far before all others: as if it were not there
    code, text = server.post("id,t,load,heat\n" + "".join(old.values()) + ALL.split("\n", 1)[1], "text/csv")
    expect((code, text) == (200, read("run.csv")), f"a row far before the others: {code} {text[:300]}")
    expect(peak(server) < before + 100, f"{before} MiB grew to {peak(server)}")
    for value in b"1,", b'"",', b"[],", b"{},", b'{"":0},':  # each takes far more in memory than in a body
        for body, kind in ((b'{"instances": [%s1]}', "application/json"),
                           (b'{"columns": [%s1]}', "application/jsonlines")):
            code, text = server.post(body % (value * (7 << 20 >> len(value) // 3)), kind)
            expect(code == 413 and "send fewer rows" in text, f"many values {value}: {code} {text[:300]}")
    expect(peak(server) < before + 100, f"{before} MiB grew to {peak(server)}: many values")
    values = columns(window("a", 100), KINDS)
    line = json.dumps({"columns": {name: of[-18:] for name, of in values.items()}}) + "\n"
    code, text = server.post(2000 * line, "application/jsonlines")
    expect(code == 200 and text.count("\n") == 2000, f"many tables: {code} {text[:300]}")
    expect(peak(server) < before + 100, f"{before} MiB grew to {peak(server)}: many tables")
    body = b'{"instances": [{"columns": {"t": [' + b"1," * (1 << 20) + b"1]}}]}"
    with ThreadPoolExecutor(16) as pool:
        bad = b"x" * (1 << 20)  # refused as soon as it is read; what waits after it is answered all the same
        for i, found in enumerate(pool.map(lambda i: server.post(*((bad,), (ALL, "text/csv"))[i % 2]), range(48))):
            expect(found == (200, read("run.csv")) if i % 2 else found[0] == 400, f"after a bad body: {found}")
        for code, text in pool.map(lambda _: server.post(body), range(16)):
            expect(code in (400, 503), f"many numbers: {code} {text[:300]}")
    expect(peak(server) < before + 400, f"{before} MiB grew to {peak(server)}: more bodies are read than are needed")
    expect(server.ask("GET", "/ping")[0].status == 200, "it no longer answers")
    server.stop()


def slow(server):
    """Clients that stop in the middle: their connections are closed."""
    post = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
    with ThreadPoolExecutor() as pool:
        for heard in pool.map(lambda data: raw(server, data), [
                post + b"Content-Length: 5000\r\n\r\nid,t", post, b"POST /invoc", b"\x16\x03\x01\x02\0\x01\0\x01",
                b"\0garbage\r\n\r\n"]):
            expect(b" 200 " not in heard, f"half a request is answered: {heard[:200]}")
    expect(server.ask("GET", "/ping")[0].status == 200, "it no longer answers")


def crowd(server):
    """A queue of one, and many requests that become whole at once: some hear 503, and when to come again."""
    request = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nConnection: close\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(ALL) + ALL.encode()
    codes = set()
    for _ in range(20):
        links = [socket.create_connection(server.place, timeout=LONG) for _ in range(24)]
        for link in links:
            link.sendall(request[:-1])
        for link in links:
            link.sendall(request[-1:])
        for link in links:
            with link, link.makefile("rb") as file:
                text = file.read()
            code = int(text.split()[1])
            codes.add(code)
            expect(code == 200 and text.endswith(read("run.csv").encode()) or
                   code == 503 and b"Retry-After: 1" in text, f"in a crowd: {text[:300]}")
        if 503 in codes:
            break
    expect(codes == {200, 503}, f"a full queue: {codes}")


def send(server, method, path, body=b"", kind="text/csv"):
    """A connection with a whole request, whose answer is to be read."""
    link = socket.create_connection(server.place, timeout=LONG)
    link.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return link


def heard(link):
    with link, link.makefile("rb") as file:
        head, _, body = file.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def overtaken(server):
    """Small requests that come while a large one is read or forecast are answered before it, and change no bit of it.

    The large one grows if it has ended before the small ones arrived."""
    bodies = [window(entity, end) for entity in "abc" for end in range(100, 104)]
    lines = [json.dumps({"columns": {name: values[-18:] for name, values in columns(body, KINDS).items()}}) + "\n"
             for body in bodies]  # as few rows as there can be: most of the time goes to the forecast
    small = server.post(bodies[0], "text/csv")
    for kind, counter, counts, large_body in [
            ("application/jsonlines", "batches_total", (100, 200, 400, 800), lambda n: "".join(n * lines)),
            ("text/csv", "batches_total", (50000, 200000, 800000), old_rows),
            ("application/json", "waiting_requests", (100000, 400000, 1600000),
             lambda n: '{"instances": [{"columns": {"t": [' + n * "1," + '1]}}], "no key": 1}')]:
        for count in *counts, *(7 * counts[-1:]):
            is_first = overtakes(server, kind, large_body(count), "halay_tft_serve_" + counter, (bodies[0], small))
            if is_first:
                break
        expect(is_first, f"a large request, {kind}, lets no other pass")


def old_rows(count):
    """A table whose reading takes far longer than its forecast."""
    head, rows = ALL.split("\n", 1)
    return head + "\n" + "".join(f"a,{t},7,1\n" for t in range(-count, 0)) + rows


def overtakes(server, kind, body, counter, small):
    begun = server.metric(counter)
    large = send(server, "POST", "/invocations", body.encode(), kind)
    while server.metric(counter) == begun and not select.select([large], [], [], 0)[0]:
        pass  # until it is taken; then it stands still until the others are there
    server.process.send_signal(signal.SIGSTOP)
    later = [send(server, "POST", "/invocations", small[0].encode()), send(server, "GET", "/ping")]
    server.process.send_signal(signal.SIGCONT)
    waited = {large, *later}
    while large in waited and len(waited) > 1:
        ready = select.select(list(waited), [], [], LONG)[0]
        expect(ready, "no answer")
        waited -= set(ready or waited)
    is_first = large in waited
    answers = [heard(link) for link in later]
    expect(answers[0] == small[1] and answers[1][0] == 200, f"beside a large request: {answers}")
    answer = heard(large)
    expect(answer == server.post(body, kind) and (answer[0] == 200 or "unknown key" in answer[1]),
           f"a large request, overtaken: {answer[0]}, {answer[1][:300]}")
    return is_first


def apart(server):
    """Requests of far different lengths that wait together are not forecast together: the short one would wait."""
    batches = "halay_tft_serve_batches_total"
    busy, long = (json.dumps(JSON["instances"][0]) + "\n") * 8, old_rows(60000)
    begun = server.metric(batches)
    links = [send(server, "POST", "/invocations", busy.encode(), "application/jsonlines")]
    while server.metric(batches) == begun:
        pass
    links += [send(server, "POST", "/invocations", body.encode()) for body in (ALL, long)]
    answers = [heard(link) for link in links]
    expect(answers[1] == (200, read("run.csv")) and answers[2][0] == 200, f"requests of other lengths: {answers[1:]}")
    expect(server.metric(batches) == begun + 3, f"{server.metric(batches) - begun} batches of three requests")


class Load:
    """Threads that ask, each on a connection of its own, until they are told to end or the connection is closed."""

    def __init__(self, server, count=8):
        self.server, self.is_over, self.answers, self.lock = server, False, [], threading.Lock()
        self.threads = [threading.Thread(target=self.work) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self):
        connection = self.server.connect()
        connection.connect()
        while not self.is_over:
            try:
                connection.request("POST", "/invocations", ALL, {"Content-Type": "text/csv"})
                answer = connection.getresponse()
                found = answer.status, answer.read().decode(), answer.getheader("X-Model-Step")
                closes = answer.getheader("Connection") == "close"
            except Exception as error:  # lost: what a test looks for
                found, closes = (0, repr(error), None), True
            with self.lock:
                self.answers.append(found)
            if closes:
                break
        connection.close()

    def wait_for(self, is_enough):
        while not is_enough(self.answers) and any(thread.is_alive() for thread in self.threads):
            self.threads[0].join(0.01)

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(LONG)
        return self.answers


def copy_model(name):
    """As a training does: each file is replaced by another one."""
    for file in ("run.json", "model.safetensors"):
        to = os.path.join(FOLDER, "served", file)
        shutil.copy(os.path.join(FOLDER, name, file), to + "~")
        os.replace(to + "~", to)


def swaps():
    """A newer model under load, found by itself; then the older one again, by a signal; a broken one is not used."""
    shutil.copytree(os.path.join(FOLDER, "run"), os.path.join(FOLDER, "served"))
    server = Server("served")
    load = Load(server)
    expected = {"20": read("run.csv"), "30": read("newer.csv")}
    load.wait_for(lambda answers: len(answers) > 20)
    copy_model("newer")
    load.wait_for(lambda answers: answers[-1][2] == "30")
    copy_model("run")
    server.process.send_signal(signal.SIGHUP)
    load.wait_for(lambda answers: answers[-1][2] == "20")
    with open(os.path.join(FOLDER, "served", "run.json"), "w", encoding="utf-8") as file:
        file.write("{")
    server.process.send_signal(signal.SIGHUP)
    while server.metric("halay_tft_serve_model_load_failures_total") < 1:
        pass
    load.wait_for(lambda answers, count=len(load.answers): len(answers) > count + 20)
    answers = load.end()
    steps = [answer[2] for answer in answers]
    expect(all(code == 200 and is_like(text, expected[step]) for code, text, step in answers),
           "lost, or changed, in a swap")
    expect(steps[0] == steps[-1] == "20" and "30" in steps, f"models in use: {set(steps)}")
    expect("is not used" in server.stop()[1], "nothing is said of a model that is broken")


def stops():
    """SIGTERM under load: what was asked is answered, and then the connection is closed."""
    server = Server("run")
    load = Load(server)
    load.wait_for(lambda answers: len(answers) > 50)
    server.stop()
    answers = load.end()
    lost = [answer for answer in answers if answer[0] != 200 or not is_like(answer[1], read("run.csv"))]
    expect(not lost, f"lost when the server stopped: {lost[:2]}")


def memory(server, count=1500):
    """Requests, good ones and bad ones, do not make it grow."""

    def many():
        connections = [server.connect() for _ in range(4)]
        for i in range(count):
            connection = connections[i % 4]
            body = json.dumps(JSON)[:None if i % 5 else 3000] if i % 2 else window("a", 60 + i % 300)
            connection.request("POST", "/invocations", body,
                               {"Content-Type": "application/json" if i % 2 else "text/csv"})
            connection.getresponse().read()
        return server.metric("process_resident_memory_bytes")

    first = many()
    grown = many() - first
    expect(grown < 4 << 20, f"{count} requests left {grown} bytes")


def described(server):
    answer, text = server.ask("GET", "/openapi.json")
    document = json.loads(text)
    _, listed = server.ask("GET", "/nothing")
    for path, methods in document["paths"].items():
        for method in methods:
            expect(f"{method.upper()} {path}" in listed, f"{path} is not there")
    expect(len(document["paths"]) == listed.count(" /"), "paths that OpenAPI does not name")

    def look(value):
        if isinstance(value, dict):
            if "$ref" in value:
                at = document
                for word in value["$ref"].split("/")[1:]:
                    at = at[word]
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(document)
    answer, text = server.ask("GET", "/ping")
    expect((answer.status, json.loads(text)) == (200, {"status": "ready", "step": 20}), "ping")
    answer, text = server.ask("HEAD", "/ping")
    expect((answer.status, text) == (200, ""), "HEAD")
    answer, text = server.ask("GET", "/execution-parameters")
    expect(json.loads(text)["MaxPayloadInMB"] == 1, "execution parameters")
    answer, text = server.ask("GET", "/metrics")
    names = [line.split()[2] for line in text.split("\n") if line.startswith("# TYPE")]
    expect(len(names) == len(set(names)) and text.endswith("\n"), "metrics")
    for line in text.strip().split("\n"):
        expect(line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0, f"a metric: {line}")


def compared(server):
    """Inputs against the training's: rows as they were, and one entity's that are far above all that it had."""
    psi, outside = ('halay_tft_serve_input_%s{input="load"}' % name for name in ("psi", "outside"))
    server.post(read("all.csv"), "text/csv")
    before = server.metric(psi)
    expect(server.metric(outside) < .05, f"outside: {server.metric(outside)}")
    head, *rows = read("all.csv").strip().split("\n")
    cells = [row.split(",") for row in rows]
    much = [[c[0], c[1], str(1000 + float(c[2])) if c[0] == "b" and c[2] else c[2], c[3]] for c in cells]
    for _ in range(50):
        server.post("\n".join([head] + [",".join(row) for row in much]) + "\n", "text/csv")
    expect(.25 < server.metric(outside) < .4, f"a third is outside: {server.metric(outside)}")
    expect(server.metric(psi) > before, f"psi: {server.metric(psi)}, before {before}")


def main():
    server = Server("run", "--body", "1")
    tests = [same_numbers, together, refusals, types, quoted, secrets, hostile, memory, described]
    if os.environ.get("TEST_BRIEF"):  # memory that a sanitizer manages says nothing of memory
        tests.remove(memory)
    for test in tests:
        test(server)
    server.stop(signal.SIGINT)
    for test, *options in [(compared,), (overtaken,), (apart,), (slow, "--timeout", "1"),
                           (crowd, "--queue", "1", "--batch", "1")]:
        server = Server("run", *options)
        test(server)
        server.stop()
    greedy()
    swaps()
    stops()
    print("serve.py:", len(failed), "failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
