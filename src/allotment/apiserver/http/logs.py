"""Logs for people and programs alike: one line an entry, key=value, the message first.

The server logs a request only if it failed or was slow; what happened to each is in the metrics.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TextIO

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValue(logging.Formatter):
    """``time=… level=… msg="request slow" method=GET path=/api seconds=1.2``; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _KNOWN}
        line = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(stream: TextIO, level: int = logging.INFO) -> None:
    """Sends what the server and what carries it (uvicorn, asyncio) log to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(KeyValue())
    for name in ("allotment", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name == "allotment" else logging.WARNING)
        logger.propagate = False


def _shown(value: object) -> str:
    """Bare if it is one word, else quoted, so that nothing a client sent can look like another field or line."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not any(char in text for char in ' "=')
    return text if plain and text else json.dumps(text)
