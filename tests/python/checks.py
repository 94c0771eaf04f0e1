# SPDX-License-Identifier: Apache-2.0
"""What the tests' programs check alike."""


def raises(kind, call, *words):
    """The exception of this kind, or of one of these, that a call raises. Its text has all the words."""
    try:
        call()
    except kind as failure:
        for word in words:
            assert word in str(failure), (word, str(failure))
        return failure
    raise AssertionError(f"no {kind} was raised, with {words}")
