"""The same object in another version of its group, as plain JSON.

v1 is the hub of resource.k8s.io: each module here has the way from one other version to v1 and back, as functions
that return a new document and leave the given one alone. They carry over what they do not understand as it is, so
that the reader of the result can report it.

* ``v1beta2`` has the fields of v1; only apiVersion differs (:func:`renamed`).
* ``v1beta1`` nests devices and requests in a different way.
* ``v1alpha2`` has claims and templates with KEP-4381 semantic parameters, which ask and answer in a different way.
"""

from typing import Any

Document = dict[str, Any]


def renamed(document: Document, api_version: str) -> Document:
    """The document in another version that has the same fields."""
    return {**document, "apiVersion": api_version}
