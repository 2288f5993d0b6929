"""The API server: store, registry, auth and http, started and stopped together.

``start`` opens the store, makes sure that what every cluster has is there (namespaces, roles), and listens if a port is
given. In process, :attr:`ApiServer.app` is called directly with ``state={"identity": …}``; no port is needed for that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from allotment.api.timestamps import timestamp
from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.bootstrap import bring_defaults
from allotment.apiserver.auth.certificates import SERVER_NAMES, SERVICE_ACCOUNT_KEY, Certificates
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.auth.jwt import SigningKey
from allotment.apiserver.auth.keyfile import write_whole
from allotment.apiserver.auth.kubeconfig import kubeconfig
from allotment.apiserver.auth.service_account import ServiceAccountTokens
from allotment.apiserver.folder import DataFolder
from allotment.apiserver.http.app import App
from allotment.apiserver.http.documents import OpenApi
from allotment.apiserver.http.listener import Listener
from allotment.apiserver.http.metrics import ServerMetrics
from allotment.apiserver.http.paths import Paths
from allotment.apiserver.http.resources import Resources
from allotment.apiserver.registry import kinds
from allotment.apiserver.registry.admission import Admission
from allotment.apiserver.registry.admissions.admin_access import AdminAccess
from allotment.apiserver.registry.admissions.allocations import Allocations
from allotment.apiserver.registry.admissions.claim_binding import ClaimBinding
from allotment.apiserver.registry.admissions.namespace_lifecycle import NamespaceLifecycle
from allotment.apiserver.registry.admissions.node_restriction import NodeRestriction
from allotment.apiserver.registry.admissions.node_slices import NodeSlices
from allotment.apiserver.registry.admissions.pod_defaults import PodTolerations
from allotment.apiserver.registry.admissions.pool_counts import PoolCounts
from allotment.apiserver.registry.admissions.priority import Priorities
from allotment.apiserver.registry.admissions.quota import Quotas
from allotment.apiserver.registry.admissions.role_escalation import RoleEscalation
from allotment.apiserver.registry.admissions.service_account import ServiceAccounts
from allotment.apiserver.registry.admissions.service_addresses import RANGE, ServiceAddresses
from allotment.apiserver.registry.call import WriteContext
from allotment.apiserver.registry.catalogue import ResourceCatalogue, found_in
from allotment.apiserver.registry.eviction import BUDGETS, note_budget
from allotment.apiserver.registry.registry import Registry
from allotment.apiserver.registry.reviews import reviews
from allotment.apiserver.store.record import Key, Obj, Record
from allotment.apiserver.store.store import Store
from allotment.apiserver.upkeep.collector import Collector
from allotment.apiserver.upkeep.custom import CustomKinds
from allotment.apiserver.upkeep.events import EventExpiry
from allotment.apiserver.upkeep.namespaces import NamespaceEmptier, ServiceAccountGiver
from allotment.apiserver.upkeep.task import Upkeep

log = logging.getLogger("allotment.apiserver")

LAG_SECONDS = 0.25
TROUBLE_SECONDS = 30.0
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. Without ``port`` nothing listens; port 0 takes any free port."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int | None = None
    names: Sequence[str] = ()  # host names and addresses for the server's certificate, besides the usual ones
    tokens: Mapping[bytes, Identity] = field(default_factory=dict)
    accept_loss: bool = False  # continue with the readable parts of a damaged store
    service_range: IPv4Network = RANGE  # the range from which services get their addresses


class ApiServer:
    """One server over one data folder."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.folder = DataFolder(options.data_dir)
        self.metrics = ServerMetrics()
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    async def start(self) -> None:
        """Starts the server. Raises the store's OpenError, CertificateError, or OSError for an unavailable port."""
        # nothing to stop if this fails
        self.store = Store.open(
            self.folder.store,
            expected=self.folder.certificates / SERVICE_ACCOUNT_KEY,
            accept_loss=self.options.accept_loss,
        )
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        names = {self.options.host, *self.options.names}
        self.certificates = Certificates.open(self.folder.certificates, names, datetime.now(UTC))
        self.accounts = ServiceAccountTokens(SigningKey(self.certificates.service_account_key), self.store)
        self.authentication = Authentication(self.accounts, time.time, self.options.tokens)
        self.authorization = Authorization(self.store)
        self.catalogue = ResourceCatalogue(found_in(kinds), reviews(self.authentication, self.authorization))
        self.registry = Registry(self.store, self.catalogue, self._admissions(), _Services(self))
        self.app = self._application()
        self.metrics.follow(self.store)
        self.store.follow(BUDGETS, note_budget)
        await self._bring_initial()
        self._tasks.append(asyncio.create_task(self._measure_lag()))
        self._tasks += [asyncio.create_task(job.run()) for job in self._upkeep()]
        if self.options.port is not None:
            tls = self.certificates.server_context()
            self._listener = Listener(self.app, self.options.host, self.options.port, tls)
            await self._listener.start()

    async def stop(self) -> None:
        """Ends watches, finishes requests, closes the store. Nothing that was acknowledged is lost. Idempotent."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._listener is not None:
            self.app.end_watches()
            await self._listener.stop()
            self._listener = None
        await self.store.close()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._listener is not None
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL for clients on this machine; a server that listens everywhere is reached at the loopback address."""
        host = _REACHED_AT.get(self.options.host, self.options.host)
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{self.port}"

    def write_kubeconfig(self) -> None:
        """Writes the administrator's kubeconfig, with the address at which it listens now."""
        write_whole(self.folder.kubeconfig, self.kubeconfig("admin", ("system:masters",)).encode())

    def kubeconfig(self, user: str, groups: Sequence[str]) -> str:
        """A kubeconfig for a user, with a new certificate."""
        authority = self.certificates.authority
        credential = authority.issue_client(user, groups, datetime.now(UTC))
        return kubeconfig(self.url, authority.certificate, credential.certificate, credential.key, user)

    def _admissions(self) -> list[Admission]:
        """Checks that change objects come first; checks that count come last, when nothing else can refuse."""
        store, authorization = self.store, self.authorization
        return [
            NamespaceLifecycle(),
            ServiceAccounts(store),
            Priorities(store),
            PodTolerations(),
            ServiceAddresses(store, self.options.service_range),
            NodeSlices(store),
            NodeRestriction(store),
            RoleEscalation(authorization),
            PoolCounts(),
            AdminAccess(store),
            ClaimBinding(authorization),
            Allocations(store),
            Quotas(store),
        ]

    def _upkeep(self) -> list[Upkeep[Any]]:
        writes, catalogue = self.registry.writes, self.catalogue
        collector = Collector(writes, catalogue)
        return [
            CustomKinds(writes, catalogue, collector.kinds_changed),
            NamespaceEmptier(writes, catalogue),
            ServiceAccountGiver(writes, catalogue),
            collector,
            EventExpiry(writes, catalogue),
        ]

    def _application(self) -> App:
        resources = Resources(self.registry, self.authorization, now, time.monotonic)
        paths = Paths(
            self.metrics,
            live={"ping": lambda: None},
            ready={
                "store": self._store_trouble,
                "shutdown": lambda: "the server is stopping" if self._stopping else None,
            },
            find_document=OpenApi(self.catalogue).find,
        )
        return App(
            self.catalogue,
            resources,
            paths,
            self.authentication,
            self.authorization,
            self.metrics,
            names={*SERVER_NAMES, self.options.host, *self.options.names},
        )

    def _store_trouble(self) -> str | None:
        """The store's problem for /readyz. It lapses after a while, as only a write can show that the store has recovered."""
        if self.store.full:
            return "the disk is full: only deletions are accepted"
        failed_at = self.store.failed_at
        if failed_at is None or time.monotonic() - failed_at > TROUBLE_SECONDS:
            return None
        return "the last write did not reach the disk"

    async def _bring_initial(self) -> None:
        """Creates what exists from the first start on: the kinds' initial objects, namespaces first, and the roles."""
        call = WriteContext(ADMINISTRATOR, now(), manager="allotment", verb="create")
        pending = []
        for resource in sorted(self.catalogue.resources, key=lambda each: each.id != "namespaces"):
            served = self.catalogue.hub(resource)
            for obj in resource.initial:
                metadata = obj["metadata"]
                key = served.key(metadata.get("namespace", ""), metadata["name"])
                if self.store.head(key) is None:
                    pending.append(
                        self.registry.writes.create(served, key.namespace, deepcopy(obj), call).record()
                    )
        for written in pending:
            await written
        for write in bring_defaults(self.store, call.now, self.certificates.authority.certificate):
            await write

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            planned = loop.time() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self.metrics.lag.observe(max(loop.time() - planned, 0.0))


class _Services:
    """What the server offers to actions."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def head(self, key: Key) -> Record | None:
        return self._server.store.head(key)

    def heads(self, resource: str, namespace: str = "") -> Iterable[Record]:
        return self._server.store.heads(resource, namespace)

    def issue_token(self, namespace: str, name: str, uid: str, request: Obj) -> Obj:
        return self._server.accounts.issue(namespace, name, uid, request, time.time())


def now() -> str:
    """RFC 3339, whole seconds."""
    return _spelled(int(time.time()))


@lru_cache(1)
def _spelled(second: int) -> str:
    return timestamp(second)
