"""What the server does on its own account: collects garbage, empties namespaces, lets events expire.

On a real cluster kube-controller-manager does these; here they are part of the server, because the promises of its API
(a propagation policy, a namespace that goes) depend on them. Each follows the store and writes through the registry, as any client would.
"""
