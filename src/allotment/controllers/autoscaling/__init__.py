"""Machines for pods that find no place, and none that nobody needs: what is launched and what goes, decided with ``autoscaler``.

Decisions are NodeClaims that are created and deleted; who launches machines for them is ``controllers.machines``. A plan is made
without giving way to anything else, so that nothing changes under it, and may take seconds: run these in a process of their own.
"""
