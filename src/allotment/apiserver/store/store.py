"""The state of the server: every object at its newest revision, the recent history, and who watches.

Two views. *Durable* is what is fsynced: all reads and watches see it and only it. *Head* is durable plus the writes on
their way to disk: decisions about writes are made on it, without an await between decision and write, so there are no
races to retry. Writes that arrive while the disk is busy are committed together; then, in order, they become durable,
watchers hear of them, and the writers are answered.

Invariants, re-derived by ``validate()``: … (store helper fills in)
"""
