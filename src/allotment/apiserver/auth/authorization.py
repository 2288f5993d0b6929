"""Whether a user may do something: ``system:masters`` may do everything; then the node authorizer decides, then roles.

The words of a refusal are Kubernetes'; they name what the caller requested and nothing that the caller could not know.
"""

from __future__ import annotations

from allotment.api.status import Forbidden, forbidden
from allotment.apiserver.auth.follow import Follows
from allotment.apiserver.auth.identity import AccessDecision, Attributes
from allotment.apiserver.auth.node import NodeAuthorizer
from allotment.apiserver.auth.rbac import Rbac

MASTERS = "system:masters"
_MASTER = AccessDecision(True)


class Authorization:
    """The authorizer of the server."""

    def __init__(self, store: Follows) -> None:
        self.rbac = Rbac(store)
        self.nodes = NodeAuthorizer(store)

    def decide(self, attributes: Attributes) -> AccessDecision:
        if MASTERS in attributes.identity.groups:
            return _MASTER
        by_node = self.nodes.decide(attributes)
        if by_node.allowed:
            return by_node
        by_role = self.rbac.decide(attributes)
        if by_role.allowed or not (by_node.reason or by_role.reason):
            return by_role
        told = (("node", by_node.reason), ("rbac", by_role.reason))
        return AccessDecision(False, "\n".join(f"{name}: {reason}" for name, reason in told if reason))

    def require(self, attributes: Attributes) -> None:
        """Raises Forbidden, in Kubernetes' words, if the request is not allowed."""
        decision = self.decide(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)


def refusal(attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 for a request; ``reason`` is the decision's."""
    told = forbidden_message(attributes)
    why = f"{told}: {reason}" if reason else told
    if not attributes.resource:
        return Forbidden(f"forbidden: {why}", {})
    return forbidden(attributes.resource, attributes.name, attributes.group, why)


def forbidden_message(attributes: Attributes) -> str:
    """The refusal as text: ``User "x" cannot list resource "pods" in API group "" in the namespace "y"``."""
    user = attributes.identity.name
    if not attributes.resource:
        return _safe(f'User "{user}" cannot {attributes.verb} path "{attributes.path}"')
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return _safe(
        f'User "{user}" cannot {attributes.verb} resource "{resource}" in API group "{attributes.group}" {where}'
    )


def _safe(text: str) -> str:
    """Removes markup, because a browser may show the text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
