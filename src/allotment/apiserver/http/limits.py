"""Limits on what a peer may send, leave unread and delay, enforced before the application. Seconds and bytes by default."""

from __future__ import annotations

MIB = 1024 * 1024
MAX_HEADERS = 64 * 1024
MAX_HEADER_COUNT = 200
MAX_CONNECTIONS = 25_000  # if there are more, the user or address with the most loses one
MAX_PIPELINED = 100  # the most requests of a connection that wait behind the current one
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0  # time from a request's first byte to the end of its headers
REQUEST_SECONDS = 30.0  # time for the whole request to arrive
BODY_RATE = 8 * 1024  # the least bytes a second for a body,
BODY_SECONDS = 5.0  # checked at this interval
READ_AT_ONCE = 256 * 1024
WRITE_PIECE_BYTES = (
    64 * 1024
)  # the most written at once, and the most that a transport buffers before we wait
MAX_UNSENT_IN_KERNEL = (
    128 * 1024
)  # send buffer of a connection; otherwise the kernel buffers megabytes for a peer that reads nothing
MAX_UNREAD = 64 * 1024  # bytes of a body that wait for the application; beyond that we stop reading
MAX_DISCARDED = 8 * 1024 * 1024
STALLED_SECONDS = 60.0  # total time for which a peer may leave data unread,
READ_RATE = 16 * 1024  # plus one second for this many bytes that it has read
MAX_UNSENT, MAX_UNSENT_EACH = 256 * MIB, 64 * MIB  # unread bytes of all users, and of one user
KEEP_ALIVE_SECONDS = 120.0
GOODBYE_SECONDS = 5.0  # time for a peer to close TLS properly
BACKLOG = 2048
