"""Reviews of identities and rights: kinds that are not stored, one file for each group."""

from __future__ import annotations

from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.registry.review import Review
from allotment.apiserver.registry.reviews.access import access_reviews
from allotment.apiserver.registry.reviews.identity import identity_reviews


def reviews(authentication: Authentication, authorization: Authorization) -> tuple[Review, ...]:
    """All reviews, for the catalogue."""
    return (*access_reviews(authorization), *identity_reviews(authentication))
