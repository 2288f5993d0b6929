"""Machines for pods that find no place, and removal of machines that nobody needs; ``autoscaler`` makes the decisions.

A decision creates or deletes NodeClaims; ``controllers.machines`` launches the machines for them. A plan is made without
yielding to the event loop, so that nothing changes meanwhile. It may take seconds, so run these controllers in a process of
their own.
"""
