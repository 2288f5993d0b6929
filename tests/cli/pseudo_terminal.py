"""A terminal for programs that draw: what they write is read as a terminal would, so that a test sees what a person sees.

It knows what ``allot top`` uses: moving the cursor, clearing, the second screen, hiding the cursor; colours are passed over.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ALLOT = Path(sys.executable).with_name("allot")
PATIENCE = 60.0
_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|([^\x1b]+)", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(\[[?0-9;]*)?$")


class Picture:
    """The cells of a terminal, and the state that programs must put back."""

    def __init__(self, columns: int, lines: int) -> None:
        self.alternate = False
        self.cursor_hidden = False
        self.written = 0  # characters, commands included
        self._left = ""  # the beginning of a command
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._cells = [[" "] * columns for _ in range(lines)]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        self.written += len(text)
        text = self._left + text
        cut = _UNFINISHED.search(text)
        self._left = cut[0] if cut else ""
        for private, numbers, command, plain in _SEQUENCE.findall(text.removesuffix(self._left)):
            if command:
                self._command(private, numbers, command)
            for each in plain:
                self._put(each)

    def _command(self, private: str, numbers: str, command: str) -> None:
        values = [int(each) for each in numbers.split(";") if each]
        if private and command in "hl":
            self.alternate = (command == "h") if values == [1049] else self.alternate
            self.cursor_hidden = (command == "l") if values == [25] else self.cursor_hidden
        elif command == "H":
            row, column = values or (1, 1)
            self._row, self._column = row - 1, column - 1
        elif command == "K":
            row_cells = self._cells[self._row]
            row_cells[self._column :] = [" "] * (self.columns - self._column)
        elif command == "J":
            first = 0 if values == [2] else self._row
            for row in range(first, self.lines):
                self._cells[row] = [" "] * self.columns
        else:
            assert command == "m", f"a terminal is told {command}"

    def _put(self, each: str) -> None:
        if each == "\n":
            self._feed_line()
        elif each == "\r":
            self._column = 0
        else:
            if self._column == self.columns:
                assert not self.alternate, "it draws beyond the right edge"
                self._feed_line()
                self._column = 0
            self._cells[self._row][self._column] = each
            self._column += 1

    def _feed_line(self) -> None:
        if self._row == self.lines - 1:
            self._cells = [*self._cells[1:], [" "] * self.columns]
        else:
            self._row += 1

    def __str__(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._cells)


class PseudoTerminal:
    """A program in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int, picture: Picture) -> None:
        self.process, self.picture = process, picture
        self._master, self._slave = master, slave
        self.before = termios.tcgetattr(slave)

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was."""
        same: bool = termios.tcgetattr(self._slave) == self.before
        return same and not self.picture.alternate and not self.picture.cursor_hidden

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        _set_size(self._slave, columns, lines)
        self.picture.resize(columns, lines)

    def until(self, holds: Callable[[str], Any], patience: float = PATIENCE) -> str:
        """What is on the screen, once something holds of it."""
        end = time.monotonic() + patience
        while not holds(str(self.picture)):
            if time.monotonic() > end or not self._read(end - time.monotonic()):
                raise AssertionError(f"it never came to that:\n{self.picture}")
        return str(self.picture)

    def stopped(self) -> None:
        """Returns once it has really stopped: whoever wakes it before that wakes it too early."""
        end = time.monotonic() + PATIENCE
        while os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is None:
            assert time.monotonic() < end, f"it does not stop:\n{self.picture}"
            self._read(0.01)

    def ended(self) -> int:
        """Its exit code. Reads what it still writes."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.picture}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
            while data[-1] & 0x80 and not _is_whole(data):
                data += os.read(self._master, 1)
        except OSError:
            return False
        self.picture.feed(data.decode())
        return True


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _set_size(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextmanager
def in_terminal(*arguments: str, columns: int = 80, lines: int = 24) -> Iterator[PseudoTerminal]:
    """``allot`` in a terminal of its own, ended with the block if it has not been."""
    master, slave = pty.openpty()
    _set_size(slave, columns, lines)
    process = subprocess.Popen(
        [str(ALLOT), *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield PseudoTerminal(process, master, slave, Picture(columns, lines))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        os.close(master)
        os.close(slave)
