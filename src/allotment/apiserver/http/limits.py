"""How much a peer may send, leave unread and wait, before the application sees any of it. Seconds and bytes, if nothing else is said."""

from __future__ import annotations

MAX_HEADERS = 64 * 1024
MAX_HEADER_COUNT = 200
MAX_CONNECTIONS = 25_000
MAX_WAITING = 100  # requests of a connection behind the one that is being answered
HANDSHAKE_SECONDS = 10.0
REQUEST_SECONDS = 30.0  # that a request may take to arrive, headers and body
READ_AT_ONCE = 256 * 1024
PIECE = 256 * 1024  # of a reply that is written at once
MAX_UNREAD = 64 * 1024  # bytes of a body that wait for the application; then no more is read
MAX_DISCARDED = 8 * 1024 * 1024
STALLED_SECONDS = 60.0  # that a peer may leave what we send it unread
KEEP_ALIVE_SECONDS = 120.0
GOODBYE_SECONDS = 5.0  # that a peer may take to end TLS properly
BACKLOG = 2048
