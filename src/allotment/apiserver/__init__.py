"""An API server that Kubernetes clients accept: one process, one event loop, one SQLite file.

Four layers, each knowing only those below it::

    http       bytes to requests and back: routes, negotiation, streams, limits, metrics
    registry   what kinds there are, and what a write must pass before it is stored; patch/ beside it
    auth       who is asking (certificates, tokens, impersonation) and may they (RBAC, nodes)
    store      revisions, durable before they are seen; watches

Objects are plain JSON values (``Obj``) in the hub version of their kind from the registry down.
"""
