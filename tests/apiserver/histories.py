"""Whether what clients saw of an object is linearizable: as if each request had been done at one moment between its start and
its end.

Every write carries a token of its own and gets a resourceVersion. So the order is known, and what is to be checked is that it
agrees with the clock and with what was read:

* a request that began after another had ended sees that one's version or a later one, and if it writes, makes a later one;
* a version has one token, that of a write which had begun; a read that tells of it did not end before;
* a conditional write follows the version that it names immediately, and one that was refused had been overtaken, or would be.

A write whose connection broke may have happened or not, at any time from its start on: it counts once somebody read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf


class Kind(Enum):
    READ = "read"
    WRITE = "write"
    SWAP = "conditional write"
    REFUSED = "conditional write that was refused"


@dataclass(frozen=True, slots=True)
class Operation:
    """One request. ``token`` is what it wrote or read; ``expected`` the version that a conditional write names."""

    kind: Kind
    start: float
    end: float = inf  # of a write whose connection broke
    token: str = ""
    version: int = 0  # 0: not known
    expected: int = 0


def check(history: Iterable[Operation]) -> None:
    """Raises AssertionError unless the history of one object is linearizable."""
    operations = list(history)
    versions = _versions(operations)
    writes = {each.token: each for each in operations if each.kind in (Kind.WRITE, Kind.SWAP)}
    for version, token in versions.items():
        assert token in writes, f"version {version} has {token}, which nobody wrote"
    of_token = {token: version for version, token in versions.items()}
    assert len(of_token) == len(versions), "one write has two versions"
    known = [(each, each.version or of_token.get(each.token, 0)) for each in operations]
    _check_clock([(each, version) for each, version in known if version])
    for each, version in known:
        if each.kind is Kind.SWAP and version:
            between = [other for other in versions if each.expected < other < version]
            assert not between, f"{each.token} was written over {each.expected}, after {between}"
        if each.kind is Kind.REFUSED:
            overtakers = [writes[token] for other, token in versions.items() if other > each.expected]
            unknown = [other for other in writes.values() if other.end == inf]
            assert any(other.start <= each.end for other in overtakers + unknown), (
                f"{each} was refused, and nobody had written since"
            )


def _versions(operations: list[Operation]) -> dict[int, str]:
    """The token of each version, as all told it."""
    versions: dict[int, str] = {}
    for each in operations:
        if each.version and each.kind is not Kind.REFUSED:
            told = versions.setdefault(each.version, each.token)
            assert told == each.token, f"version {each.version} is {told}, and {each.token} too"
    return versions


def _check_clock(known: list[tuple[Operation, int]]) -> None:
    """No request is done before one that had ended when it began, and none tells of what had not begun when it ended."""
    begun = {version: each.start for each, version in known if each.kind is not Kind.READ}
    ended = sorted((each.end, version) for each, version in known if each.end < inf)
    newest, at = 0, 0
    for each, version in sorted(known, key=lambda pair: pair[0].start):
        while at < len(ended) and ended[at][0] < each.start:
            newest = max(newest, ended[at][1])
            at += 1
        later = version >= newest if each.kind is Kind.READ else version > newest
        assert later, (
            f"{each} came to version {version}, and somebody had been told of {newest} before it began"
        )
        assert begun.get(version, 0.0) <= each.end, f"{each} ended before what it tells of began"
