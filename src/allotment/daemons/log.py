"""Logs of long-running commands, on standard error: a readable line for each event on a terminal, a line of JSON otherwise."""

from __future__ import annotations

import json
import logging
import sys
import time

from allotment.api.text import printable, printable_json, printable_lines
from allotment.insight.remarks import on_terminal

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """Time, level, logger and message; each ``extra`` becomes a field."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in vars(record).items() if name not in _KNOWN})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))


class ReadableLines(logging.Formatter):
    """Local time, message, and each ``extra`` after it; level and logger are added from warnings on."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        wrong = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        facts = "".join(f" {name}={value}" for name, value in vars(record).items() if name not in _KNOWN)
        line = f"{moment} {wrong}{record.name.removeprefix('allotment.')}: {record.getMessage()}{facts}"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return printable_lines(printable(line) + trace)


def set_up(level: int) -> None:
    """Sends Allotment's logs to standard error, and of other libraries only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ReadableLines() if on_terminal(sys.stderr) else JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("allotment").setLevel(level)
