"""A live picture of a cluster on a terminal. The time between two pictures has a lower bound; keys take effect at once.

A picture that equals the one before costs nothing to show. Log lines would damage the picture, so they are kept back and
printed after the terminal is restored.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.render.keys import keys_of
from allotment.cli.render.terminal import opened
from allotment.cli.render.top_frame import Frame, Setting, frame
from allotment.cli.render.top_view import TopView, pressed
from allotment.daemons.ending import told_to_end

if TYPE_CHECKING:
    from allotment.cli.render.terminal import Terminal
    from allotment.insight.overview import Overview

_LOG_LINES = 20
Look = Callable[[Sequence[str]], "Overview"]
"""Makes the picture of the cluster as it is now. Its argument has the pods whose reasons are on the screen."""


class LiveView:
    """``alarm`` returns a message that the user must see at once, or an empty string."""

    def __init__(self, name: str, interval: float, look: Look, alarm: Callable[[], str]) -> None:
        self._name, self._interval = name, interval
        self._look, self._alarm = look, alarm
        self._view = TopView()
        self._frame = Frame([], {}, ())
        self._wake = asyncio.Event()

    async def run(self, beside: asyncio.Future[Any] | None = None) -> None:
        """Runs until the user quits or a signal arrives. ``beside`` runs at the same time; its errors are raised here."""
        ended, loop = told_to_end(), asyncio.get_running_loop()
        stop = asyncio.ensure_future(ended.wait())
        with _kept_log(), opened() as terminal:
            terminal.listen(loop, self._pressed)
            loop.add_signal_handler(signal.SIGWINCH, self._wake.set)
            try:
                while not (self._view.ended or stop.done()):
                    self._draw(terminal)
                    await self._pause({stop, *([beside] if beside is not None else [])})
                    if beside is not None and beside.done():
                        await beside
            finally:
                terminal.deafen(loop)
                loop.remove_signal_handler(signal.SIGWINCH)
                stop.cancel()

    def _draw(self, terminal: Terminal) -> None:
        setting = Setting(self._name, datetime.now().astimezone(), self._alarm())
        self._frame = frame(self._look(self._frame.pods), self._view, setting, *terminal.size())
        terminal.draw(self._frame.lines)

    async def _pause(self, others: set[asyncio.Future[Any]]) -> None:
        woken = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait({woken, *others}, timeout=self._interval, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        self._wake.clear()

    def _pressed(self, data: bytes) -> None:
        if not data:  # the terminal is gone
            self._view = pressed(TopView(), "q", {})
        for key in keys_of(data):
            self._view = pressed(self._view, key, self._frame.extents)
        self._wake.set()


@contextmanager
def _kept_log() -> Iterator[None]:
    """Keeps back log lines while the context lasts, and prints the most recent ones after it."""
    handler, log = _Kept(), logging.getLogger("allotment")
    before, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before
        for line in handler.lines:
            click.echo(line, err=True)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
