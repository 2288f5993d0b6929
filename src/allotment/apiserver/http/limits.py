"""How much a peer may send, leave unread and wait, before the application sees any of it. Seconds and bytes, if nothing else is said."""

from __future__ import annotations

MIB = 1024 * 1024
MAX_HEADERS = 64 * 1024
MAX_HEADER_COUNT = 200
MAX_CONNECTIONS = 25_000  # of these the user or address with the most loses one when another comes
MAX_PIPELINED = 100  # requests of a connection behind the one that is being answered
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0  # that a request may take from its first byte to the end of its headers
REQUEST_SECONDS = 30.0  # that all of it may take to arrive
BODY_RATE = 8 * 1024  # bytes a second that a body has to come with,
BODY_SECONDS = 5.0  # looked at so often
READ_AT_ONCE = 256 * 1024
WRITE_PIECE_BYTES = (
    64 * 1024
)  # of a reply that is written at once, and that a transport keeps before it has us wait
MAX_UNSENT_IN_KERNEL = (
    128 * 1024
)  # of a connection; else the kernel takes megabytes for a peer that reads nothing
MAX_UNREAD = 64 * 1024  # bytes of a body that wait for the application; then no more is read
MAX_DISCARDED = 8 * 1024 * 1024
STALLED_SECONDS = 60.0  # that a peer may leave what we send it unread, in all,
READ_RATE = 16 * 1024  # but for one more second for so many bytes that it has taken
MAX_UNSENT, MAX_UNSENT_EACH = 256 * MIB, 64 * MIB  # bytes that peers have not read, of all and of one user
KEEP_ALIVE_SECONDS = 120.0
GOODBYE_SECONDS = 5.0  # that a peer may take to end TLS properly
BACKLOG = 2048
