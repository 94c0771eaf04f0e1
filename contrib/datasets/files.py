# SPDX-License-Identifier: Apache-2.0
"""What the converters share: text files, plain or compressed, and an output that is complete or not there."""

import contextlib
import gzip
import os
import sys
import zlib

# Bytes that are not UTF-8 are handed on as they are.
TEXT = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}


class Wrong(Exception):
    """What is wrong with the data set: the text for the user."""


@contextlib.contextmanager
def reading(path):
    """A text file, compressed where it begins like one that is."""
    try:
        with open(path, "rb") as raw:
            is_compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", **TEXT) if is_compressed else open(path, **TEXT) as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise Wrong(f"file '{path}': it is truncated or damaged") from None
    except OSError as error:
        raise Wrong(f"cannot read '{path}': {error.strerror}") from None


@contextlib.contextmanager
def writing(path):
    """The output, which gets its name when it is complete; "-" is standard output."""
    if path == "-":
        with open(sys.stdout.fileno(), "w", closefd=False, **TEXT) as file:
            yield file
        return
    part = path + ".part"
    try:
        with open(part, "w", **TEXT) as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


def main(convert, arguments):
    """Run a converter: exit status 1 and one line for what is wrong with the data set or the output."""
    try:
        convert(arguments)
    except (Wrong, OSError) as wrong:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {wrong}")
