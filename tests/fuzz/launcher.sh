#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over what the launcher reads: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
exec "$top_srcdir/tests/fuzz/with_clang" tests/fuzz/launcher tests/fuzz/launcher.c base/document.c \
    base/secure/cipher.c base/secure/handshake.c base/secure/seal.c \
    base/error_text.c base/log.c base/memory.c base/number_text.c base/output_file.c \
    base/net/address.c base/net/socket.c base/parse.c base/store/store_protocol.c base/types.c \
    launcher/common/buffer.c launcher/remote/frame.c \
    launcher/remote/host_plan.c launcher/cli/settings_file.c -- -lsodium -ljansson -lyaml
