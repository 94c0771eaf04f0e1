#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Known data sets, from small files in exactly their formats: Electricity's table, with as many windows as were
# published; Volatility's; Favorita's and PEMS-SF's, which scripts make tables of.
. "${top_srcdir:?}/tests/tft/shell.sh"
datasets=$top_srcdir/contrib/datasets

# Electricity: 370 clients, of which one has no load in 2014; 15-minute rows on the first day, hourly ones then.
awk 'BEGIN {
    printf "\"\""
    for (c = 1; c <= 370; c++) {
        printf ";\"MT_%03d\"", c
        load = load ";" (c == 370 ? "0" : c % 2 ? "3,80710659898477" : "1")
    }
    print ""
    days = "31 28 31 30 31 30 31 31 7"; n = split(days, last, " ")
    for (m = 1; m <= n; m++) for (d = 1; d <= last[m]; d++) for (h = 0; h < 24; h++)
        for (q = 0; q < (m == 1 && d == 1 ? 60 : 1); q += 15)
            printf "\"2014-%02d-%02d %02d:%02d:00\"%s\n", m, d, h, q, load
    printf "\"2014-09-08 00:00:00\"%s\n", load
}' </dev/null >"$scratch/LD2011_2014.txt"
check "prepare Electricity" "$tft" prepare --schema "$top_srcdir/examples/electricity.yaml" "$scratch/LD2011_2014.txt" \
    -o "$scratch/e.htd"
for line in "entities  *369" "entities without target  *1" "rows  *2214000" "windows train  *1868985" \
    "windows valid  *204057" "windows test  *53505"; do
    grep -q "^$line$" "$scratch/said" || wrong "Electricity: no '$line' in: $(head -n 20 "$scratch/said")"
done
rm "$scratch/e.htd" "$scratch/LD2011_2014.txt"

# Volatility: business days with a holiday, offsets that are left out, a value of zero.
{
    echo ',Symbol,rv5_ss,open_to_close,rv10'
    awk 'BEGIN { for (i = 0; i < 2; i++) for (d = 3; d <= 28; d++) { w = (d - 3) % 7; if (w < 5 && d != 17)
        printf "2000-01-%02d 00:00:00+%02d:00,%s,%s,0.00%d,1\n",
            d, i, i ? ".FTSE" : ".SPX", d == 5 ? "0" : "1.5e-4", d } }' </dev/null
} >"$scratch/oxford.csv"
sed 's/encoder: 252/encoder: 5/' "$top_srcdir/examples/volatility.yaml" >"$scratch/volatility.yaml"
check "prepare Volatility" "$tft" prepare --schema "$scratch/volatility.yaml" "$scratch/oxford.csv" -o "$scratch/v.htd"
for line in "entities  *2" "rows missing, added  *2" "columns ignored  *1 (rv10)" "region  *id  *static  *2  *"; do
    grep -q "^$line$" "$scratch/said" || wrong "Volatility: no '$line' in: $(cat "$scratch/said")"
done

command -v python3 >/dev/null 2>&1 || {
    echo "skipped: no python3 for what contrib/datasets makes tables of"
    finish
    exit
}
export PYTHONDONTWRITEBYTECODE=1

# PEMS-SF: three sensors, four days; line i is day randperm[i]. A value is 1000 day + 100 sensor + its ten minutes.
pems=$scratch/pems
mkdir "$pems"
echo '[3 1 4 2]' >"$pems/randperm"
echo '[5 3]' >"$pems/PEMS_trainlabels"
echo '[6 4]' >"$pems/PEMS_testlabels"
echo '[400000 400010 400020]' >"$pems/stations_list"
matrix() {
    awk -v days="$*" 'BEGIN { n = split(days, day, " "); for (i = 1; i <= n; i++) {
        printf "["
        for (s = 0; s < 3; s++) { if (s) printf ";"
            for (t = 0; t < 144; t++) printf "%s%d", t ? " " : "", 1000 * day[i] + 100 * s + t }
        print "]" } }' </dev/null
}
matrix 3 1 >"$pems/PEMS_train"
matrix 4 2 | gzip >"$pems/PEMS_test"
check "convert PEMS-SF" "$datasets/pems_sf.py" "$pems" -o "$scratch/pems.csv"
[ "$(wc -l <"$scratch/pems.csv")" -eq $((1 + 3 * 94)) ] || wrong "PEMS-SF has not 3 x 94 rows"
grep -q '^400000,1,0,1,3,1008.5$' "$scratch/pems.csv" ||
    wrong "PEMS-SF: the first hour: $(sed -n 2p "$scratch/pems.csv")"
grep -q '^400020,94,3,22,6,4334.5$' "$scratch/pems.csv" ||
    wrong "PEMS-SF: the last hour: $(tail -n 1 "$scratch/pems.csv")"
sed -e 's/encoder: 168, horizon: 24/encoder: 24, horizon: 12/' \
    -e 's/train: "[^"]*", valid: "[^"]*"/train: "< 60", valid: "< 80"/' \
    "$top_srcdir/examples/pems-sf.yaml" >"$scratch/pems.yaml"
check "prepare PEMS-SF" "$tft" prepare --schema "$scratch/pems.yaml" "$scratch/pems.csv" -o "$scratch/p.htd"
grep -q '^entities  *3$' "$scratch/said" || wrong "PEMS-SF: not three sensors"
echo '[3 1 4 1]' >"$pems/randperm"
refused 1 "is not a permutation" "$datasets/pems_sf.py" "$pems" -o "$scratch/none.csv"
echo '[3 1 4 2 5]' >"$pems/randperm"
refused 1 "5 days in randperm, 4 labels" "$datasets/pems_sf.py" "$pems" -o "$scratch/none.csv"
echo '[3 1 4 2]' >"$pems/randperm"
echo '[400000 400010]' >"$pems/stations_list"
refused 1 "PEMS_train', line 1: 3 sensors; stations_list has 2" "$datasets/pems_sf.py" "$pems" -o "$scratch/none.csv"
echo '[400000 x]' >"$pems/stations_list"
refused 1 "stations_list', line 1: something else than a number" "$datasets/pems_sf.py" "$pems" -o "$scratch/none.csv"
set -- "$scratch"/none.csv*
[ ! -e "$1" ] || wrong "a failed conversion left $1 behind"

# Favorita: one trajectory with a gap, one with negative sales, days outside the span.
favorita=$scratch/favorita
mkdir "$favorita"
printf 'store_nbr,city,state,type,cluster\n1,Quito,Pichincha,D,13\n2,"Santo Domingo, new",Tsachilas,A,4\n' \
    >"$favorita/stores.csv"
printf 'item_nbr,family,class,perishable\n103665,BREAD/BAKERY,2712,1\n99197,GROCERY I,1067,0\n' >"$favorita/items.csv"
printf 'date,store_nbr,transactions\n2015-01-02,1,1500\n2015-01-04,2,900\n' >"$favorita/transactions.csv"
printf 'date,dcoilwtico\n2014-12-31,53.45\n2015-01-02,52.72\n2015-01-04,\n' >"$favorita/oil.csv"
cat >"$favorita/holidays_events.csv" <<'END'
date,type,locale,locale_name,description,transferred
2015-01-02,Holiday,National,Ecuador,Primer dia,False
2015-01-03,Holiday,Regional,Tsachilas,Provincia,False
2015-01-03,Holiday,Local,Quito,"Fundacion, Quito",False
2015-01-04,Holiday,National,Ecuador,Traslado,True
END
printf 'id,date,store_nbr,item_nbr,unit_sales,onpromotion\n' >"$favorita/train.csv"
cat >>"$favorita/train.csv" <<'END'
0,2014-12-31,1,103665,7.0,False
1,2015-01-01,1,103665,3.0,False
2,2015-01-01,2,99197,4.0,
3,2015-01-02,2,103665,-1.0,False
4,2015-01-03,2,103665,8.0,False
5,2015-01-04,1,103665,5.0,True
6,2015-01-04,2,99197,6.5,False
7,2016-06-02,2,99197,6.5,False
END
gzip "$favorita/train.csv"
check "convert Favorita" "$datasets/favorita.py" "$favorita" -o "$scratch/favorita.csv"
printf '%s,' traj_id date unit_sales onpromotion open store_nbr item_nbr city state type cluster family class \
    perishable transactions oil national_hol regional_hol >"$scratch/want.csv"
cat >>"$scratch/want.csv" <<'END'
local_hol
1_103665,2015-01-01,3.0,False,1,1,103665,Quito,Pichincha,D,13,BREAD/BAKERY,2712,1,-1,53.45,,,
2_99197,2015-01-01,4.0,,1,2,99197,"Santo Domingo, new",Tsachilas,A,4,GROCERY I,1067,0,-1,53.45,,,
1_103665,2015-01-02,,,0,1,103665,Quito,Pichincha,D,13,BREAD/BAKERY,2712,1,1500,52.72,Primer dia,,
1_103665,2015-01-03,,,0,1,103665,Quito,Pichincha,D,13,BREAD/BAKERY,2712,1,-1,52.72,,,"Fundacion, Quito"
1_103665,2015-01-04,5.0,True,1,1,103665,Quito,Pichincha,D,13,BREAD/BAKERY,2712,1,-1,52.72,,,
2_99197,2015-01-02,,,0,2,99197,"Santo Domingo, new",Tsachilas,A,4,GROCERY I,1067,0,-1,52.72,Primer dia,,
2_99197,2015-01-03,,,0,2,99197,"Santo Domingo, new",Tsachilas,A,4,GROCERY I,1067,0,-1,52.72,,Provincia,
2_99197,2015-01-04,6.5,False,1,2,99197,"Santo Domingo, new",Tsachilas,A,4,GROCERY I,1067,0,900,52.72,,,
END
check "Favorita, joined" diff "$scratch/want.csv" "$scratch/favorita.csv"
sed 's/encoder: 90, horizon: 30/encoder: 2, horizon: 1/' "$top_srcdir/examples/favorita.yaml" >"$scratch/favorita.yaml"
check "prepare Favorita" "$tft" prepare --schema "$scratch/favorita.yaml" "$scratch/favorita.csv" -o "$scratch/f.htd"
grep -q '^windows train  *4 (2 of 4 targets masked)$' "$scratch/said" ||
    wrong "Favorita's windows: $(grep windows "$scratch/said")"
refused 2 "must be days like" "$datasets/favorita.py" "$favorita" --first 1st -o "$scratch/none.csv"
printf 'store_nbr,city,state,type,cluster\n1,Quito,Pichincha,D,13\n' >"$favorita/stores.csv"
refused 1 "column 'store_nbr': '2' is not in stores.csv" "$datasets/favorita.py" "$favorita" -o "$scratch/none.csv"
refused 1 "cannot read" "$datasets/favorita.py" "$pems" -o "$scratch/none.csv"
finish
