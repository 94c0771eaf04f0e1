#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/release: the tree's versions agree; a wrong one is found, wherever it is; and no release is made of what is not
# ready for one.
. "${top_srcdir:?}/tests/build/build.sh"
tree=$scratch/tree
mkdir -p "$tree/tools" "$tree/packaging/rpm" "$tree/packaging/conda" "$tree/.ci"
cd "$top_srcdir"
cp CHANGELOG.md CITATION.cff README.md configure.ac libhalay.map libhalay-tft.map "$tree"
cp packaging/rpm/halay.spec "$tree/packaging/rpm"
cp packaging/conda/recipe.yaml "$tree/packaging/conda"
cp tools/release "$tree/tools"
mkdir "$tree/include" && cp include/halay_types.h "$tree/include"
[ ! -e debian ] || cp -R debian "$tree"
chmod -R u+w "$tree"
cd "$tree"

# expect STATUS TEXT ARGUMENT: what tools/release makes of it.
expect() {
    checks=$((checks + 1))
    status=0
    tools/release "$3" >"$scratch/said" 2>&1 || status=$?
    if [ $status -ne "$1" ] || ! grep -qF -e "$2" "$scratch/said"; then
        wrong "tools/release $3 ended with $status, not $1 and '$2':"
        cat "$scratch/said"
    fi
}

version=$(sed -n 's/^AC_INIT(\[halay\], \[\(.*\)\])$/\1/p' configure.ac)
expect 0 "all files name version $version" --check
expect 2 'usage: tools/release' ''

# spoil FILE FROM TO: with another version in one line the check fails, and names the file.
spoil() {
    [ -e "$1" ] || return 0 # in no tarball
    cp "$1" "$scratch/kept"
    sed "s/$2/$3/" "$scratch/kept" >"$1"
    ! cmp -s "$1" "$scratch/kept" || wrong "there is no '$2' in $1"
    expect 1 "${4-$1 names version '9.8.7', not $version}" --check
    cp "$scratch/kept" "$1"
}
spoil configure.ac "\[$version\]" '[9.8.7]' "CITATION.cff names version '$version', not 9.8.7"
spoil CHANGELOG.md "^## $version" '## 9.8.7'
spoil CITATION.cff "^version: .*" 'version: 9.8.7'
spoil README.md ": version $version," ': version 9.8.7,'
spoil README.md "^| last release | $version" '| last release | 9.8.7' 'README.md,table names version'
spoil debian/changelog "(.*-" '(9.8.7-'
spoil packaging/conda/recipe.yaml '^  version: ".*' '  version: "9.8.7"'
spoil packaging/rpm/halay.spec "^Version:.*" 'Version: 9.8.7'
spoil packaging/rpm/halay.spec "^\(\* .*\) - .*" '\1 - 9.8.7-1' 'halay.spec,%changelog names version'
spoil CITATION.cff '^version: .*' '' "CITATION.cff names version ''"

expect 1 'this is no checkout' 1.2.3
if [ ! -e debian ] || ! command -v git >/dev/null 2>&1; then
    echo "skipped: a release is made of a checkout"
    build_end
    exit
fi
# Whatever else the user's git is told to do.
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
commit() {
    git add -A
    git -c user.name=test -c user.email=test@example.org commit -q -m "$1"
}
git init -q -b main .
printf '#!/bin/sh\necho "0 passed, 1 failed, 0 skipped"\nexit 1\n' >.ci/run
chmod +x .ci/run
commit first
expect 1 "CITATION.cff names version '$version', not 1.2.3" 1.2.3

# A release with everything in its place, but for the gate.
sed -i "s/^AC_INIT.*/AC_INIT([halay], [1.2.3])/" configure.ac
sed -i -e "s/\(VERSION_MAJOR\) .*/\1 1/" -e "s/\(VERSION_MINOR\) .*/\1 2/" -e "s/\(VERSION_PATCH\) .*/\1 3/" \
    include/halay_types.h
sed -i "s/^## Not released/## 1.2.3 - 2027-03-01/" CHANGELOG.md
sed -i -e 's/^version: .*/version: 1.2.3/' -e '/^date-released/d' CITATION.cff
echo 'date-released: 2027-03-01' >>CITATION.cff
sed -i -e 's/^| last release | [0-9.]*/| last release | 1.2.3/' -e "s/: version $version,/: version 1.2.3,/" README.md
sed -i -e 's/^Version:.*/Version: 1.2.3/' -e 's/^\* .*/* Mon Mar 1 2027 Somebody <s@example.org> - 1.2.3-1/' \
    packaging/rpm/halay.spec
sed -i 's/^  version: ".*/  version: "1.2.3"/' packaging/conda/recipe.yaml
printf '%s\n\n' 'halay (1.2.3-1) unstable; urgency=medium' '  * New.' \
    ' -- S <s@example.org>  Mon, 01 Mar 2027 10:00:00 +0000' >debian/changelog
expect 1 'changes that are not committed' 1.2.3
expect 1 'libhalay.map: no node HALAY_TOOLS_1.2' 1.2.3
sed -i 's/^HALAY_TOOLS_[0-9.]*/HALAY_TOOLS_1.2/' libhalay.map
sed -i 's/^HALAY_TFT_[0-9.]*/HALAY_TFT_1.3/' libhalay-tft.map
expect 1 'libhalay-tft.map: version 1.3 is later than 1.2.3' 1.2.3
sed -i 's/^HALAY_TFT_[0-9.]*/HALAY_TFT_1.2/' libhalay-tft.map
commit second
expect 1 'the gate failed' 1.2.3
grep -qF 'there is no release before' "$scratch/said" || wrong "it finds a release before the first"

git checkout -q -b other
expect 1 'this is branch other, not main' 1.2.3
git checkout -q main
git tag v1.2.3
expect 1 'there is a tag v1.2.3' 1.2.3
expect 1 'HALAY_ABI is that of v1.2.3' 1.2.3
sed -i 's/unstable/UNRELEASED/' debian/changelog
sed -i 's/^\* .*/* Somebody/' packaging/rpm/halay.spec
sed -i 's/^date-released.*/date-released: 2027-03-02/' CITATION.cff
sed -i 's/^## 1.2.3/## Not released\n\n&/' CHANGELOG.md
expect 1 'debian/changelog says UNRELEASED' 1.2.3
expect 1 "packaging/rpm/halay.spec,%changelog names the day ''" 1.2.3
expect 1 "CITATION.cff names the day '2027-03-02'" 1.2.3
expect 1 'CHANGELOG.md does not begin with 1.2.3' 1.2.3
build_end
