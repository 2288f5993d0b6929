"""A client to the cluster that a kubeconfig names. Every failure is a sentence with a next step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.client.client import Client
    from allotment.client.connection import Connection

GRANT = 'docs/control-plane.md, "Components alone", has a role to grant'
"""The next step for a caller who lacks rights."""


@asynccontextmanager
async def connected(
    kubeconfig: Path | None, context: str | None, name: str, tell: Callable[[str], None] | None = None
) -> AsyncIterator[Client]:
    """Connects to the cluster. Raises Failure if it does not answer, and for errors that the block does not handle itself.
    ``tell`` is called when the server goes away and when it comes back; by default, both are printed."""
    from allotment.api.status import Forbidden, StatusError, Unauthorized
    from allotment.client.client import Client
    from allotment.client.connection import KubeconfigError
    from allotment.client.outage import OutageTeller
    from allotment.client.over_http import HttpTransport
    from allotment.client.transport import Disconnected
    from allotment.insight.errors import Failure
    from allotment.insight.remarks import remark

    connection = connection_of(kubeconfig, context)
    try:
        http = HttpTransport(connection, user_agent=name)
        tell = tell or (lambda words: remark(f"{name}: {words}"))
        transport = OutageTeller(http, connection.server, tell)
        async with Client(transport, manager=name) as client:
            yield client
    except Disconnected as exc:
        raise Failure(
            f"cannot reach {connection.server}: {exc}", "is it running, and is this the right --context?"
        ) from exc
    except (Unauthorized, KubeconfigError) as exc:
        why = connection.expired() or exc
        raise Failure(
            f"{connection.server}: {why}", "the server does not accept the kubeconfig's credentials"
        ) from exc
    except Forbidden as exc:
        raise Failure(f"{connection.server}: {exc}", GRANT) from exc
    except StatusError as exc:
        raise Failure(f"{connection.server}: {exc}") from exc


def connection_of(kubeconfig: Path | None, context: str | None) -> Connection:
    """The server's address and the caller's credentials. Without a kubeconfig, this is the server that `allot up` started."""
    from allotment.apiserver.folder import own_kubeconfig
    from allotment.client.connection import KubeconfigError, load
    from allotment.insight.errors import Failure

    try:
        return load(kubeconfig, context, fallback=own_kubeconfig())
    except KubeconfigError as exc:
        raise Failure(str(exc)) from exc
