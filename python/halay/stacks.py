# SPDX-License-Identifier: Apache-2.0
"""A signal at which the program writes its threads' stacks to standard error."""

import faulthandler
import signal

# HALAY_STACKS_SIGNAL of halay_tools.h: the engine raises it when the other ranks wait for this one.
SIGNAL = signal.SIGRTMAX - 2


def register() -> None:
    """Have the signal write the stacks, without the interpreter's help, unless the program has a handler of its own."""
    if signal.getsignal(SIGNAL) == signal.SIG_DFL:
        faulthandler.register(SIGNAL, file=2, all_threads=True)
