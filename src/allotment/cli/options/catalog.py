"""``--catalog``: the machines that can be launched, from files and folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def catalog_option(function: F) -> F:
    """Passes ``catalog``, the names of files and folders."""
    return click.option(
        "--catalog",
        multiple=True,
        type=click.Path(exists=True),
        metavar="FILE|DIR",
        help="machines that can be launched: InstanceTypes, NodePools, NodeGroups; repeatable; see docs/autoscaling.md",
    )(function)
