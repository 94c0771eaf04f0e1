# SPDX-License-Identifier: Apache-2.0
"""Progress of a training: a line that is rewritten on a terminal and in a notebook, or lines now and then elsewhere."""

import sys
import time
from typing import Any, List, Optional

# Seconds from one step that is shown to the next, as those of halay-tft.
_PACE, _PLAIN_PACE = 0.2, 10.0


def format_step(p: Any) -> str:
    """A step, of struct halay_tft_progress, as halay-tft writes it."""
    return (
        f"step {p.step}/{p.steps}  epoch {p.epoch}  loss {p.loss:.4f}  {p.samples_per_second:.0f} samples/s  "
        f"{p.seconds:.0f} s, at most {p.seconds_left:.0f} s left"
    )


class Silent:
    """A display that shows nothing, the base of the others."""

    def is_due(self) -> bool:
        """Return whether it is time to show another step; called on the library's thread."""
        return False

    def step(self, text: str) -> None:
        """Show the progress of the training."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def close(self) -> None:
        """End the display: the training has ended."""


class Lines(Silent):
    """On standard error."""

    def __init__(self) -> None:
        # In a service there may be no standard error, in some notebooks one with few of a file's methods.
        isatty = getattr(sys.stderr, "isatty", None)
        self._is_terminal = bool(isatty and isatty())
        self._pace = _PACE if self._is_terminal else _PLAIN_PACE
        self._shown = time.monotonic()
        self._is_open = False  # the cursor follows a line that is rewritten

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < self._pace:
            return False
        self._shown = now
        return True

    def _write(self, text: str, end: str) -> None:
        stream = sys.stderr
        if stream is None:
            return
        stream.write(("\r\033[K" if self._is_terminal else "") + text + end)
        if hasattr(stream, "flush"):
            stream.flush()

    def step(self, text: str) -> None:
        self._is_open = self._is_terminal
        self._write(text, "" if self._is_terminal else "\n")

    def say(self, text: str) -> None:
        self._is_open = False
        self._write(text, "\n")

    def close(self) -> None:
        if self._is_open:
            self._write("", "")


class Notebook(Silent):
    """A display of IPython's that is updated: the lines that stay, and the present step."""

    def __init__(self, display: Any) -> None:
        self._shown = time.monotonic()
        self._lines: List[str] = []
        self._step = ""
        self._handle = display(self._page(), display_id=True, raw=True)

    def _page(self) -> Any:
        text = "\n".join([*self._lines, self._step] if self._step else self._lines)
        return {"text/plain": text}

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < _PACE:
            return False
        self._shown = now
        return True

    def step(self, text: str) -> None:
        self._step = text
        self._handle.update(self._page(), raw=True)

    def say(self, text: str) -> None:
        self._lines.append(text)
        self._handle.update(self._page(), raw=True)

    def close(self) -> None:
        self._step = ""
        self._handle.update(self._page(), raw=True)


def _notebook() -> Optional[Any]:
    """IPython's display, if this program runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


def progress(verbose: bool) -> Silent:
    """Return the display of a training for this program."""
    if not verbose:
        return Silent()
    display = _notebook()
    return Notebook(display) if display else Lines()
