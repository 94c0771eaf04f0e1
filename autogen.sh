#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from configure.ac. Run it once after a clone.
set -eu
cd "$(dirname "$0")"
exec autoreconf --install --force
