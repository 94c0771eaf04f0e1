#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft drift: rows that go on as before are no drift, and the exit code says so; an entity whose input moved alone
# is named, with the input; loads that grow by half, a category that training knows but that was rare, hours that are
# missing; forecasts that became worse; two ranks find the same; the forms; too short a past; a profile, and what
# predict says with it; what it refuses.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs python3
cat >"$scratch/schema.yaml" <<'END'
name: shops
id: {column: shop}
time: {column: day}
every: 1d
inputs:
  sales: {column: sales, role: target, fill: interpolate}
  price: {column: price, role: observed, fill: forward}
  promotion: {column: promotion, role: known, type: category}
  brand: {column: brand, role: observed, type: category, unknown: true}
  tax: {column: tax, role: observed, scale: none}
  weekday: {calendar: day_of_week, role: known, type: category}
  shop: {from: id, role: static, type: category}
window: {encoder: 28, horizon: 7, stride: 1}
split: {train: "< 2023-01-01", valid: "< 2024-01-01", test: "< 2025-01-01", context: before}
END
# Four shops, six years; WHAT changes from 2024-06-01 on.
make_rows() {
    python3 - "$1" >"$scratch/rows.csv" <<'END'
import datetime, math, random, sys
what, draw, other = sys.argv[1], random.Random(3), random.Random(4)
print("shop,day,sales,price,promotion,brand,tax")
for shop in "abcd":
    day, noise = datetime.date(2019, 1, 1), 0
    while day < datetime.date(2024, 7, 1):
        late = day >= datetime.date(2024, 6, 1)
        noise = .6 * noise + draw.gauss(0, 3)
        season = 10 * math.sin(2 * math.pi * day.timetuple().tm_yday / 365.25)
        price, promotion = 20 + draw.gauss(0, 1), "much" if draw.random() < .04 else draw.choice(["no", "no", "some"])
        if late and what == "price" and shop == "c":
            price += 3
        if late and what == "promotion" and shop == "b":
            promotion = "much"
        sales = 100 + season + 8 * (day.weekday() >= 5) - 2 * (price - 20) + noise
        if late and what == "sales":
            sales *= 1.5
        brand = "new" if late and what == "brand" and shop == "a" else other.randrange(150)
        tax = 8 if late and what == "tax" else 7
        gone = what == "missing" and late and shop == "d" and day.day % 2
        print(f"{shop},{day},{'' if gone else round(sales, 3)},{price:.3f},{promotion},{brand},{tax}")
        day += datetime.timedelta(1)
END
    "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/rows.csv" -o "$scratch/$1.htd"
}
for what in none price promotion sales missing brand tax; do check "prepare $what" make_rows $what; done
check "train" "$tft" train --data "$scratch/none.htd" --out "$scratch/run" --hidden-size 8 --heads 2 --max-steps 60 \
    --batch-size 32 --eval-every 30 --valid-samples 200 --learning-rate 0.01
drift() {
    data=$scratch/$1.htd
    shift
    "$tft" drift --checkpoint "$scratch/run" --data "$data" --since 2024-06-01 --json "$scratch/found.json" "$@"
}
# What was found, in an expression of rows (a list), d (those that drifted) and o (all).
found() {
    python3 - "$scratch/found.json" "$1" <<'END'
import json, sys
o = json.load(open(sys.argv[1]))
rows = [r for f in ("inputs", "errors") if o[f] for r in o[f]["rows"]]
d = [r for r in rows if r["drifted"]]
assert o["drifted"] == bool(d)
told = [(r.get("input"), r["entity"], r["statistic"], r["value"], r["threshold"]) for r in d]
assert eval(f"({sys.argv[2]})"), (told, o["inputs"]["rate"])
END
}
check "nothing has moved" drift none
grep -q '^2024-06-01 00:00:00 to 2024-07-01 00:00:00: no drift in [0-9]* statistics$' "$scratch/said" ||
    wrong "$(cat "$scratch/said")"
check "what it says" found 'o["inputs"]["rate"] == .025 and o["inputs"]["seasonal"] and o["errors"]["windows"] == 16 and
    {r["statistic"] for r in rows} == {"ks", "psi", "missing", "loss", "coverage"} and len(o["inputs"]["course"]) > 20'
refused 3 "statistics have drifted" drift price --page "$scratch/page.html" --csv "$scratch/table.csv" \
    --metrics "$scratch/drift.prom"
grep -q '^drifted price of c, ks ' "$scratch/said" || wrong "$(cat "$scratch/said")"
check "the price of c alone" found 'all(r["entity"] == "c" and r["input"] == "price" for r in d if "input" in r) and
    any(r["statistic"] == "ks" and sum(r["recent"][:8]) < .1 and abs(sum(r["reference"]) - 1) < 1e-9 for r in d)'
drawn "$scratch/page.html"
shows '<h1>Drift</h1>'
shows '<b>price of c, '
grep -q '<td>drifted</td><td>yes</td>' "$scratch/page.html" &&
    grep -q '<td>price</td>' "$scratch/page.html" && grep -q '</html>' "$scratch/page.html" ||
    wrong "the page"
check "the table and the gauges" python3 - "$scratch/found.json" "$scratch/table.csv" "$scratch/drift.prom" <<'END'
import csv, json, re, sys
o = json.load(open(sys.argv[1]))
rows = [r for f in ("inputs", "errors") for r in o[f]["rows"]]
table = list(csv.DictReader(open(sys.argv[2])))
assert len(table) == len(rows) and sum(r["drifted"] == "1" for r in table) == sum(r["drifted"] for r in rows)
text = open(sys.argv[3]).read()
for line in text.splitlines():
    assert re.fullmatch(r'# (HELP|TYPE) halay_tft_drift_\w+ .*|halay_tft_drift_found \d+|'
                        r'halay_tft_drift_(value|threshold)\{entity="\w*",input="\w*",statistic="\w+"\} [-+.e0-9]+',
                        line), line
assert text.count("_value{") == len(rows)
END
refused 3 "drifted" drift promotion
check "the promotion of b alone" found 'any(r["input"] == "promotion" and r["statistic"] == "psi" and
    r["recent"][r["groups"].index("much")] == 1 for r in d if "input" in r) and
    all(r["entity"] == "b" and r["input"] == "promotion" for r in d if "input" in r)'
refused 3 "drifted" drift sales
check "all shops' sales, and the loss" found '{r["entity"] for r in d if r.get("input") == "sales"} == set("abcd") and
    any(r["statistic"] == "loss" and r["entity"] is None and r["value"] > 2 for r in d)'
refused 3 "drifted" drift brand
check "a brand that a has not had, among 150" found 'any(r["input"] == "brand" and r["statistic"] == "psi" and
    r["groups"][-2:] == ["(others)", "(not seen in training)"] and r["recent"][-1] == 1 and r["reference"][-1] == 0
    for r in d if "input" in r) and all(r["entity"] == "a" and r["input"] == "brand" for r in d if "input" in r)'
refused 3 "drifted" drift tax
check "what never changed, and does" found '{r["entity"] for r in d if r.get("input") == "tax"} == set("abcd") and
    all(r["input"] == "tax" and r["value"] > .9 for r in d if "input" in r)'
refused 3 "missing" drift missing
check "the sales of d, of which some are missing" found 'any(r["statistic"] == "missing" and r["entity"] == "d" and
    abs(r["recent"] - .5) < .03 and r["reference"] == 0 for r in d)'

# The same by two ranks, by steps, and up to a moment.
cp "$scratch/found.json" "$scratch/alone.json"
refused 3 "missing" "$halayrun" -np 2 "$tft" drift --checkpoint "$scratch/run" --data "$scratch/missing.htd" --last 30 \
    --json "$scratch/found.json"
check "the same" python3 - "$scratch/alone.json" "$scratch/found.json" <<'END'
import json, sys
a, b = [json.load(open(p)) for p in sys.argv[1:]]
assert a == b
END
check "up to a moment" "$tft" drift --checkpoint "$scratch/run" --data "$scratch/sales.htd" --since 2024-05-01 \
    --until 2024-06-01 --rate 0.002
grep -q '^inputs: false alarms in 0.1 % of such spans, extrapolated from ' "$scratch/said" ||
    wrong "$(cat "$scratch/said")"
check "its table on standard output" sh -c '"$@" | cut -d, -f3 | sort -u | tr "\n" " "' sh "$tft" drift \
    --checkpoint "$scratch/run" --data "$scratch/none.htd" --last 30 --csv -
[ "$(cat "$scratch/said")" = "coverage ks loss missing psi statistic " ] || wrong "$(cat "$scratch/said")"

# So long a span has no others like it in the past.
check "too few stretches" drift none --since 2023-01-01
grep -q '^inputs: no stretch of the past to compare with: only a psi of 0.25 counts$' "$scratch/said" ||
    wrong "$(cat "$scratch/said")"

# A profile: what it holds, who compares with it, and what does not fit.
predict() { # predict ROWS: what such rows make predict say
    make_rows "$1" >/dev/null
    "$tft" predict --checkpoint "$scratch/run" "$scratch/rows.csv" --split test --stride 7 -o "$scratch/forecasts.csv"
}
check "no profile" predict sales
grep -q "outside those of the training" "$scratch/said" && wrong "predict compares with no profile"
check "profile" "$tft" drift --checkpoint "$scratch/run" --data "$scratch/none.htd" --profile
cp "$scratch/run/profile.json" "$scratch/profile"
check "profile by two ranks" "$halayrun" -np 2 "$tft" drift --checkpoint "$scratch/run" --data "$scratch/sales.htd" \
    --profile
check "what was changed lies behind the training" cmp "$scratch/profile" "$scratch/run/profile.json"
check "what it holds" python3 - "$scratch/profile" <<'END'
import json, sys
inputs = json.load(open(sys.argv[1]))["inputs"]
assert set(inputs) == {"sales", "price", "promotion", "brand", "tax"}
days = 4 * (365 * 4 + 1)  # four years of four shops
for name, one in inputs.items():
    assert sum(one["shares"]) == days, (name, one["shares"])
assert len(inputs["promotion"]["shares"]) == 3 and min(inputs["promotion"]["shares"]) < .06 * days
for name in "sales", "price":
    assert max(inputs[name]["shares"]) - min(inputs[name]["shares"]) <= 8, inputs[name]["shares"]
    assert set(inputs[name]["edges"]) == set("abcd")
    assert all(len(e) == 11 and e == sorted(e) for e in inputs[name]["edges"].values())
END
check "rows as before" predict none
grep -q "outside those of the training" "$scratch/said" && wrong "rows as before: $(cat "$scratch/said")"
check "rows with larger sales" predict sales
grep -q "warning: input 'sales': [1-9][0-9]* % of the values that forecasts saw are outside those of the training" \
    "$scratch/said" || wrong "larger sales: $(cat "$scratch/said")"
grep -q "input 'price'" "$scratch/said" && wrong "the price is as before: $(cat "$scratch/said")"
sed 's/"encoding": "[0-9a-f]*"/"encoding": "00000000"/' "$scratch/profile" >"$scratch/run/profile.json"
check "the profile of another training" predict sales
grep -q "run/profile.json' is of another training" "$scratch/said" || wrong "$(cat "$scratch/said")"
for damage in 's/\[/{/' '/"edges"/,$d' 's/"shares": \[/&-1,/'; do
    sed "$damage" "$scratch/profile" >"$scratch/run/profile.json"
    check "a damaged profile, $damage" predict sales
    grep -q "run/profile.json' is damaged" "$scratch/said" || wrong "$damage: $(cat "$scratch/said")"
done
rm "$scratch/run/profile.json"
refused 2 "'--profile' looks at nothing" drift none --profile

refused 1 "cannot begin at 2022-05-01 00:00:00: the training span goes up to 2023-01-01" drift none --since 2022-05-01
refused 1 "cannot begin at 2024-08-01 00:00:00: they end before 2024-07-01" drift none --since 2024-08-01
refused 1 "'since': 'today' is not a moment" drift none --since today
refused 2 "'--last' is up to the last row" drift none --last 3
refused 2 "--rate" drift none --rate 2
refused 2 "--data is missing" "$tft" drift --checkpoint "$scratch/run"
refused 1 "cannot write" drift none --json "$scratch/no/found.json"
finish
