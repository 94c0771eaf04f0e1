#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over the store's messages: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
exec "$top_srcdir/tests/fuzz/with_clang" tests/fuzz/store tests/fuzz/store.c base/error_text.c \
    base/log.c base/number_text.c base/memory.c base/net/address.c \
    base/net/listen.c base/net/socket.c base/parse.c base/types.c \
    base/store/store_client.c base/store/store_protocol.c base/store/store_server.c base/store/store_table.c -- \
    -lsodium -lpthread
