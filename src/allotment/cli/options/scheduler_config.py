"""The scheduler's configuration file, the same option for every command that runs a scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.scheduler.config.configuration import Configuration

MAX_CONFIG_BYTES = 1024 * 1024


def configuration_of(file: Path | None, *, devices: bool = True) -> Configuration:
    """What a file says, or the default. Tells on standard error what it says in vain. ``devices``: whether claims are allocated."""
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
            raise Failure(f"{file}: more than {MAX_CONFIG_BYTES} bytes are no scheduler configuration")
        configuration = load(data.decode(), str(file))
    except OSError as exc:
        raise Failure(f"{file} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise Failure(f"{file} is no text: {exc}") from exc
    except ConfigurationError as exc:
        raise Failure(str(exc), "docs/scheduling.md has examples") from exc
    for field in configuration.ignored:  # some say what is so instead
        told = field if ": " in field else f"{field} has no meaning here and is ignored"
        remark(f"{file}: {told}")
    return configuration
