"""Reviews: kinds that answer a question and are not stored, such as SubjectAccessReview and TokenReview.

A client POSTs one; ``run`` fills in its status, and the result is the reply. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.store.record import Obj


@dataclass(frozen=True, slots=True)
class ReviewCall:
    """The circumstances of a review: the sender, the namespace (empty for cluster-scoped kinds) and the time (RFC 3339)."""

    identity: Identity
    namespace: str
    now: str


@dataclass(frozen=True, slots=True)
class Review:
    """A kind of review. ``run`` gets the body, may change it, and returns the reply. It raises StatusError."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    run: Callable[[Obj, ReviewCall], Obj]
    doc: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def id(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
