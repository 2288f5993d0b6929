"""The scheduler's configuration file: one option for every command that runs a scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.scheduler.config.configuration import Configuration

MAX_CONFIG_BYTES = 1024 * 1024


def configuration_of(file: Path | None, *, devices: bool = True) -> Configuration:
    """The configuration from a file, or the default. Fields without effect are reported on standard error. ``devices``:
    whether claims are allocated."""
    found = _read(file)
    return found if devices else replace(found, devices=False)


def _read(file: Path | None) -> Configuration:
    from allotment.insight.errors import Failure
    from allotment.insight.remarks import remark
    from allotment.scheduler.config.profile_file import DEFAULT, ConfigurationError, load

    if file is None:
        return DEFAULT
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            raise Failure(f"{file}: a scheduler configuration has at most {MAX_CONFIG_BYTES} bytes")
        configuration = load(data.decode(), str(file))
    except OSError as exc:
        raise Failure(f"{file} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise Failure(f"{file} is not a text file: {exc}") from exc
    except ConfigurationError as exc:
        raise Failure(str(exc), "docs/scheduling.md has examples") from exc
    for field in configuration.ignored:  # some messages explain what is so instead
        told = field if ": " in field else f"{field} has no meaning here and is ignored"
        remark(f"{file}: {told}")
    return configuration
