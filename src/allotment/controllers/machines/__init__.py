"""From a NodeClaim to a node with its devices, and from its deletion to the end of the machine.

Who plans creates and deletes NodeClaims; here they are carried out. Providers launch and end machines and know nothing of
Kubernetes' ways; the lifecycle knows nothing of clouds. All that matters is in the API's objects: a process may end between
any two writes, and the next one goes on.
"""
