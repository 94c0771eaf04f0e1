#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A wheel of what this build made: its files, its record, its tag, its programs, its package installed beside nothing
# else. (wheel.sh tries one that is built to be given away.)
. "$top_srcdir/tests/python/lib.sh"
need zipfile
command -v objdump >/dev/null 2>&1 || skip "no objdump"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset HALAY_LIBRARY PYTHONPATH

PATH=/nowhere /bin/sh "$top_srcdir/tools/wheel" "$scratch/dist" 2>"$scratch/said" && exit 1
if ! grep -q 'no python3 in PATH' "$scratch/said" || [ -e "$scratch/dist" ]; then
    echo "tools/wheel without python3 says: $(cat "$scratch/said")"
    exit 1
fi

programs=
for program in launcher/halayrun .libs/halay-tft perf/.libs/halay-perf; do
    built=$top_builddir/$program
    [ -f "$built" ] || built=$top_builddir/$(echo "$program" | sed 's|\.libs/||')
    programs="$programs $built"
done
modules=
for module in ucx cuda tft-cuda; do
    module=$top_builddir/.libs/libhalay-$module.so
    [ ! -f "$module" ] || modules="$modules $module"
done
# shellcheck disable=SC2086 # several words
PYTHONPATH=$top_srcdir/packaging/python "$python" -c '
import sys, halay_build
print(halay_build.write_wheel(sys.argv[1], sys.argv[2:4], sys.argv[7:], sys.argv[4:7]))
' "$scratch" "$top_builddir/.libs/libhalay.so.1" "$top_builddir/.libs/libhalay-tft.so.1" $programs $modules \
    >"$scratch/name" 2>"$scratch/said"
"$python" - "$scratch/$(cat "$scratch/name")" "$top_srcdir" "$scratch" "$modules" <<'END'
import base64, configparser, email, hashlib, os, re, sys, zipfile

path, tree, scratch, modules = sys.argv[1:]
version = re.search(r"AC_INIT\(\[halay\], \[([^]]*)\]", open(f"{tree}/configure.ac").read())[1]
info, scripts = f"halay-{version}.dist-info", f"halay-{version}.data/scripts"
wheel = zipfile.ZipFile(path)
names = set(wheel.namelist())

package = set()
for folder, _, files in os.walk(f"{tree}/python/halay"):
    if "__pycache__" not in folder:
        package |= {os.path.relpath(f"{folder}/{name}", f"{tree}/python") for name in files}
programs = {f"{scripts}/{name}" for name in ("halayrun", "halay-tft", "halay-perf")}
about = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
libraries = {"halay/lib/libhalay.so.1", "halay/lib/libhalay-tft.so.1"}
libraries |= {f"halay/lib/{os.path.basename(module)}" for module in modules.split()}
expected = package | programs | about | libraries
assert "halay/py.typed" in expected
others = {name for name in names - expected if not name.startswith(f"{info}/licenses/")}
assert expected <= names and not others, (expected - names, others)

recorded = {}
for line in wheel.read(f"{info}/RECORD").decode().splitlines():
    name, digest, size = line.rsplit(",", 2)
    recorded[name] = digest, size
assert set(recorded) == names and recorded.pop(f"{info}/RECORD") == ("", ""), set(recorded) ^ names
for name, (digest, size) in recorded.items():
    data = wheel.read(name)
    sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert (digest, size) == (f"sha256={sha}", str(len(data))), name

for name in programs | libraries:
    assert wheel.read(name)[:4] == b"\x7fELF", f"{name} is no program"
    assert wheel.getinfo(name).external_attr >> 16 == 0o100755, name
tag = re.fullmatch(rf"halay-{re.escape(version)}-(py3-none-\w+)\.whl", os.path.basename(path))[1]
said = open(f"{scratch}/said").read()
# One that is linked with shared libraries says so, and is for this machine only.
assert ("manylinux" in tag) == ("for this machine only" not in said), (tag, said)
assert email.message_from_bytes(wheel.read(f"{info}/WHEEL"))["Tag"] == tag
metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("halay", version, ">=3.9"), metadata
assert metadata.get_all("Provides-Extra") == ["numpy", "ucx"] + ["cuda"] * ("tft-cuda" in modules) + ["tft"], metadata
points = configparser.ConfigParser()
points.read_string(wheel.read(f"{info}/entry_points.txt").decode())
assert points["torch.distributed.backends"]["halay"] == "halay.distributed:register"
assert points["torchcomms.backends"]["halay"] == "halay.torchcomms"
wheel.extractall(f"{scratch}/site")
END
cd "$scratch"
# -I: neither the tree's package nor the user's.
"$python" -I -c '
import sys
sys.path.insert(0, "site")
import halay
from importlib import metadata
assert metadata.version("halay") == halay.__version__
with halay.Context() as ctx:
    assert ctx.size == 1
loaded = open("/proc/self/maps").read()
assert "site/halay/lib/libhalay.so.1" in loaded and "libhalay-tft" not in loaded, "another library was loaded"
import halay.tft
assert "site/halay/lib/libhalay-tft.so.1" in open("/proc/self/maps").read(), "another trainer was loaded"
'
echo "the wheel of this build is whole"
