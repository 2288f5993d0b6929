"""From a NodeClaim to a node with its devices, and from the claim's deletion to the end of the machine.

Planners create and delete NodeClaims; these controllers carry them out. Providers launch and terminate machines and know
nothing of Kubernetes; the lifecycle knows nothing of clouds. All state is in the API's objects: a process may end between any
two writes, and the next one continues.
"""
