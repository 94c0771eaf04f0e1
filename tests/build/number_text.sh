#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No number with a decimal point is read or written by the locale's rules. In what is part of a library, strtod and its
# like, the v functions of printf (whose format anybody gives), and printf of a float or of a format that is not written
# there are base/number_text.h's. Programs never set a locale. First checks itself.
. "${top_srcdir:?}/tests/build/build.sh"

# FILE: CALL of each such call in the files of the list.
find_calls() {
    LC_ALL=C xargs awk '
        # The length of the call whose bracket is the first letter, with all of its arguments.
        function span(text,    i, c, depth, quote) {
            for (i = 1; i <= length(text); i++) {
                c = substr(text, i, 1)
                if (quote != "") {
                    if (c == "\\")
                        i++
                    else if (c == quote)
                        quote = ""
                } else if (c == "\"" || c == "\047")
                    quote = c
                else if (c == "(")
                    depth++
                else if (c == ")" && --depth == 0)
                    return i
            }
            return i
        }
        function is_wrong(name, arguments) {
            gsub(/%%/, "", arguments)
            if (name ~ /^(strto(d|f|ld)|atof|v.*printf)$/)
                return 1
            if (name ~ /scanf$/)
                return arguments ~ /%[*0-9]*[lL]?[aefgAEFG]/
            return arguments !~ /"/ || arguments ~ /%[-+ #0]*[0-9*]*([.][0-9*]*)?[lL]?[aefgAEFG]/
        }
        function search(file, rest,    at, name, size) {
            while (match(rest, /[A-Za-z_0-9]*(printf|scanf|strto(d|f|ld)|atof)\(/)) {
                name = substr(rest, RSTART, RLENGTH - 1)
                at = RSTART + RLENGTH - 1
                if (name ~ /^(v?(f|s|sn|d|as)?printf|v?(f|s)?scanf|strto(d|f|ld)|atof)$/) {
                    size = span(substr(rest, at, 4000))
                    if (is_wrong(name, substr(rest, at, size)))
                        print file ": " name substr(rest, at, size < 60 ? size : 60)
                }
                rest = substr(rest, at)
            }
        }
        FNR == 1 {
            search(file, text)
            file = FILENAME
            text = ""
        }
        !/^ *([*]|\/[*]|\/\/)/ && !/__attribute__/ { text = text $0 " " }
        END { search(file, text) }' <"$1"
}

none_found() { # none_found WHAT
    checks=$((checks + 1))
    [ ! -s "$scratch/found" ] || wrong "$1:
$(cat "$scratch/found")"
}

cat >"$scratch/wrong.c" <<'END'
snprintf(text, size, "%d of %5.1f %%", n, x);
fprintf(f, is_none ? "-" : "%.*g",
        digits, x);
fprintf(file, format, x);
vsnprintf(text, size, format, args);
x = strtod(text, &end), y = atof(text);
sscanf(line, "%lf", &x);
END
cat >"$scratch/right.c" <<'END'
/* strtod(text) is not called */
halay_snprintf(text, size, "%.3f", x);
snprintf(text, size, "%d %%, f(%s) \"%zu\"", n, name, size);
x = halay_strtod(text, NULL);
sscanf(line, "%lld %u", &n, &m);
END
echo "$scratch/wrong.c" >"$scratch/list"
find_calls "$scratch/list" >"$scratch/found"
checks=$((checks + 1))
[ "$(wc -l <"$scratch/found")" -eq 7 ] || wrong "of 7 calls in wrong.c are found: $(cat "$scratch/found")"
echo "$scratch/right.c" >"$scratch/list"
find_calls "$scratch/list" >"$scratch/found"
none_found "nothing is wrong in right.c"

cd "$top_srcdir"
find base collectives fusion tft -name '*.[ch]' -o -name '*.cu' |
    grep -vE '^tft/tools/(cli|serve)/|^tft/tools/halay_tft[.]c$|^base/number_text[.]c$' | sort >"$scratch/list"
find_calls "$scratch/list" >"$scratch/found"
none_found "these depend on the locale; base/number_text.h has what does not"
grep -rnE '\b(setlocale|uselocale)\(' base collectives fusion tft launcher perf sagemaker include --include='*.[ch]' \
    --include='*.cu' | grep -v '^base/number_text[.]c:' >"$scratch/found" || true
none_found "these set a locale"
build_end
