"""The server's own jobs: it collects garbage, empties namespaces, and expires events.

On a real cluster kube-controller-manager does this. Here it is part of the server, because promises of its API (propagation
policies, deletion of namespaces) depend on it. Each job follows the store and writes through the registry, like any client.
"""
