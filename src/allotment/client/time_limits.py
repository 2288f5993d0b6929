"""Time limits for many calls with one timer, which checks all calls when it fires. A timer for each call, as in
``asyncio.timeout``, costs more than reading an object."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import Any

from allotment.client.transport import Call, Disconnected

_AS_LONG_AS_IT_TAKES: AbstractContextManager[None] = nullcontext()


class TimeLimits:
    """The time limits of the calls through one transport."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[Any], _TimeLimit] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf

    def of(self, call: Call) -> AbstractContextManager[None]:
        """A context that limits the time of the call; raises Disconnected when the time is up."""
        return _TimeLimit(self, call, call.timeout) if call.timeout is not None else _AS_LONG_AS_IT_TAKES

    def begin(self, task: asyncio.Task[Any], limit: _TimeLimit, seconds: float) -> None:
        loop = task.get_loop()
        limit.due = loop.time() + seconds
        self._calls[task] = limit
        if limit.due < self._rings:
            self._set(loop, limit.due)

    def end(self, task: asyncio.Task[Any]) -> None:
        del self._calls[task]

    def _set(self, loop: asyncio.AbstractEventLoop, rings: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = loop.call_at(rings, self._ring, loop), rings

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._rings = None, inf
        now = loop.time()
        for task, limit in self._calls.items():
            if limit.due <= now and not limit.passed:
                limit.passed = True
                task.cancel()
        left = [limit.due for limit in self._calls.values() if not limit.passed]
        if left:
            self._set(loop, min(left))


class _TimeLimit:
    """The time limit of one call, created by the calling task."""

    __slots__ = ("_call", "_cancelling", "_limits", "_seconds", "_task", "due", "passed")

    def __init__(self, limits: TimeLimits, call: Call, seconds: float) -> None:
        self._limits, self._call, self._seconds = limits, call, seconds
        self.due, self.passed = inf, False

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task()
        if task is not None:
            self._cancelling = task.cancelling()
            self._limits.begin(task, self, self._seconds)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        task, call = self._task, self._call
        if task is None:
            return
        self._limits.end(task)
        if self.passed and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Disconnected(f"{call.method} {call.path}: no answer within {self._seconds} s") from exc
