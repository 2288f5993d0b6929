"""Questions about who one is and what one may do: kinds that are asked and not stored, one file a group."""

from __future__ import annotations

from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.registry.review import Review
from allotment.apiserver.registry.reviews.access import access_reviews
from allotment.apiserver.registry.reviews.identity import identity_reviews


def reviews(authentication: Authentication, authorization: Authorization) -> tuple[Review, ...]:
    """All of them, for the catalogue."""
    return (*access_reviews(authorization), *identity_reviews(authentication))
