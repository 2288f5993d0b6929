"""An API server that Kubernetes clients accept: one process, one event loop, one SQLite file.

Four layers, each knowing only those below it::

    http       bytes to requests and back: routes, negotiation, streams, limits, metrics
    registry   the kinds, and the checks that a write must pass before it is stored; patch/ beside it
    auth       authentication (certificates, tokens, impersonation) and authorization (RBAC, nodes)
    store      revisions, durable before they are visible; watches

Objects are plain JSON values (``Obj``) in the hub version of their kind from the registry down.
"""
