#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The package is imported without NumPy and PyTorch, and says what it needs.
. "$top_srcdir/tests/python/lib.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
python=python3
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

"$python" -c '
import sys
import halay
assert not {"numpy", "torch"} & set(sys.modules), "halay imports them"
'
"$python" - "$HALAY_LIBRARY" "$top_srcdir" <<'END'
import os, re, subprocess, sys

library, tree = sys.argv[1:]


def imported(value):
    """What an interpreter says of the import with HALAY_LIBRARY set to value, or without it."""
    environment = {name: text for name, text in os.environ.items() if name != "HALAY_LIBRARY"}
    if value is not None:
        environment["HALAY_LIBRARY"] = value
    command = "try:\n import halay\n print(halay.__version__)\nexcept ImportError as failure:\n print(failure)"
    return subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True).stdout


version = re.search(r"AC_INIT\(\[halay\], \[([^]]*)\]", open(f"{tree}/configure.ac").read())[1]
assert imported(library).strip() == version, (imported(library), version)
said = imported("/nowhere/libhalay.so.1")
assert "'/nowhere/libhalay.so.1' does not exist" in said and "Set HALAY_LIBRARY to the path" in said, said
said = imported(sys.executable)  # no library
assert "cannot be loaded" in said and sys.executable in said, said
END
"$python" -m halay | grep -q "library: $HALAY_LIBRARY"
"$python" -m halay --version | grep -q '^halay [0-9]'
! "$python" -m halay --nonsense 2>"$scratch" || exit 1
grep -q "unknown argument '--nonsense'" "$scratch"
for module in torch distributed jax; do # isolated from what is installed
    ! "$python" -S -m "halay.$module" 2>"$scratch" || exit 1
    grep -q "halay.$module needs .*: pip install" "$scratch" || { cat "$scratch"; exit 1; }
done
echo "the import is light, and says what it lacks"
