"""A terminal that shows pictures in place: it uses the alternate screen, and reads keys without Enter.

Only changed lines are written, and each picture in a single write, so nothing flickers. However the context ends, the
terminal is restored to its earlier state, also while the process is stopped with Ctrl-Z.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from allotment.cli.render.screen import Span

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_CHUNK = 1024


class Terminal:
    """An open terminal in full-screen mode. :func:`opened` creates it."""

    def __init__(self, keys: int | None) -> None:
        from rich.console import Console

        self._keys = keys
        self._before: list[Any] | None = None
        self._console = Console(highlight=False, markup=False, emoji=False, file=sys.stdout)
        self._shown: list[Sequence[Span]] = []
        self._size = (0, 0)

    def size(self) -> tuple[int, int]:
        """The number of columns and lines."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return max(size.columns, 1), max(size.lines, 1)

    def draw(self, lines: Sequence[Sequence[Span]]) -> None:
        """Replaces the picture on the screen."""
        size, written = self.size(), []
        if size != self._size:
            self._size, self._shown = size, []
            written.append("\x1b[2J")
        for number, line in enumerate(lines, 1):
            if number > len(self._shown) or self._shown[number - 1] != line:
                written.append(f"\x1b[{number};1H{self._ansi(line, size[0])}\x1b[0m\x1b[K")
        if len(lines) < len(self._shown):
            written.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = list(lines)
        self._write("".join(written))

    def _ansi(self, line: Sequence[Span], width: int) -> str:
        from rich.text import Text

        text = Text.assemble(*line, no_wrap=True, overflow="crop", end="")
        with self._console.capture() as captured:
            self._console.print(text, width=width, end="", no_wrap=True, crop=True)
        return captured.get()

    # --- keys and signals ---

    def listen(self, loop: AbstractEventLoop, pressed: Callable[[bytes], None]) -> None:
        """Passes on bytes as the user types them, and an empty value when the terminal is gone; handles Ctrl-Z."""
        if self._keys is not None:
            loop.add_reader(self._keys, lambda: pressed(self._read()))
        loop.add_signal_handler(signal.SIGTSTP, self._stop)

    def deafen(self, loop: AbstractEventLoop) -> None:
        if self._keys is not None:
            loop.remove_reader(self._keys)
        loop.remove_signal_handler(signal.SIGTSTP)

    def _read(self) -> bytes:
        assert self._keys is not None
        try:
            return os.read(self._keys, _CHUNK)
        except OSError:
            return b""

    def _stop(self) -> None:
        self.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.enter()

    # --- this screen, and that of commands ---

    def enter(self) -> None:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._shown = []
        self._write(_ENTER)

    def leave(self) -> None:
        with suppress(OSError):
            self._write(_LEAVE)
        if self._keys is not None and self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.buffer.write(text.encode(sys.stdout.encoding, "replace"))
            sys.stdout.buffer.flush()


@contextmanager
def opened() -> Iterator[Terminal]:
    """The terminal of standard output. Keys come from standard input or, if that is not a terminal, from the terminal itself."""
    with suppress(OSError):
        sys.stdout.flush()
    terminal = Terminal(_keyboard())
    try:
        terminal.enter()
        yield terminal
    finally:
        terminal.leave()


def _keyboard() -> int | None:
    if sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
