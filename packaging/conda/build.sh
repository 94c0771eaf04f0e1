#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What rattler-build runs: the installation below $PREFIX, and the Python package, whose libraries are in halay/lib.
set -eu
mkdir build && cd build
../configure --prefix="$PREFIX" --without-mpi --without-mpich --without-onednn --without-blas --without-simgrid
make -j"$CPU_COUNT" install
cp -r ../python/halay "$SP_DIR/"
mkdir -p "$SP_DIR/halay/lib"
for library in libhalay.so.1 libhalay-tft.so.1; do
    ln -sr "$PREFIX/lib/$library" "$SP_DIR/halay/lib/$library"
done
info=$SP_DIR/halay-$PKG_VERSION.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: halay\nVersion: %s\n' "$PKG_VERSION" >"$info/METADATA"
printf '[torch.distributed.backends]\nhalay = halay.distributed:register\n' >"$info/entry_points.txt"
printf 'conda\n' >"$info/INSTALLER"
