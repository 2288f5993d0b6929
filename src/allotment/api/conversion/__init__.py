"""The same object in another version of its group, as plain JSON.

v1 is the hub of resource.k8s.io: each module here has the way from one other version to v1 and back, as functions
that return a new document and leave the given one alone. What they do not understand they carry over as it is, so
that whoever reads the result can report it.

* ``v1beta2`` has the fields of v1; only apiVersion differs (:func:`renamed`).
* ``v1beta1`` nests devices and requests otherwise.
* ``v1alpha2`` has KEP-4381's claims with semantic parameters, and templates: another way to ask and to answer.
"""

from typing import Any

Document = dict[str, Any]


def renamed(document: Document, api_version: str) -> Document:
    """The document in a version that has the same fields."""
    return {**document, "apiVersion": api_version}
