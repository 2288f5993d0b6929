"""The rights of components, collected from the statements beside their code, for those who grant rights and those who check
them.

The embedded server grants ``embedded_roles``; the manifests in ``examples/kubernetes`` grant ``manifest_roles``. The server
must not import controllers, but must know their users even if no component runs in its process. Therefore
``tools/manifests.py`` writes both down (``make manifests``), and a test compares them. Before it starts, a component checks
whether it has the rights in ``of_scheduler`` or ``of_controllers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from allotment.api.rights import CUSTOM_GROUP, READING, Grant, gathered, grant, reads
from allotment.apiserver.auth import users
from allotment.client import leader, recorder
from allotment.client.client import Client
from allotment.client.discovery import discover
from allotment.client.form import ResourcePath
from allotment.client.places import DEFINITIONS
from allotment.client.recorder import Recorder
from allotment.client.rights import Right, granted, reading
from allotment.client.shared_informers import Informers
from allotment.controllers import names, suite
from allotment.daemons.service import NAMESPACE, Service
from allotment.dashboard import census
from allotment.insight.errors import Failure
from allotment.scheduler import driver

_UNASKED = ("resourceclaims/binding", "resourceclaims/driver", "/finalizers", "leases")
"""Suffixes of resources that no component needs to start: only some clusters check a right for the first three, and a lease
as a sign of life is optional. The lease by which a component leads is a different one."""


def embedded_roles() -> dict[str, list[Grant]]:
    """The rights of each component's user on the embedded server. In ``allot up``, the scheduler reads through the informers
    of the controllers."""
    return {
        user: gathered(map(grant, lines))
        for user, lines in {
            users.SCHEDULER: _lines(driver.RIGHTS, lease="allotment-scheduler"),
            users.CONTROLLERS: _lines(
                reads(driver.RIGHTS), *_everything(names.ALL), lease="allotment-controllers"
            ),
            users.AUTOSCALER: _lines(*_everything(names.ON_REQUEST), lease="allotment-autoscaler"),
            users.DASHBOARD: census.RIGHTS,
        }.items()
    }


def manifest_roles() -> dict[str, list[Grant]]:
    """The rights of each ClusterRole in the manifests. Machines and autoscaling have a leader lease of their own."""
    each = suite.RIGHTS
    made = {
        "allotment-scheduler": _lines(driver.RIGHTS, lease="allotment-scheduler"),
        "allotment-controllers": _lines(
            each[names.CLAIMS], each[names.DEVICE_TAINTS], lease="allotment-controllers"
        ),
        "allotment-pools": each[names.POOLS],
        "allotment-overlays": each[names.OVERLAYS],
        "allotment-machines": _lines(each[names.MACHINES], *suite.PROVIDER_RIGHTS.values()),
        "allotment-autoscaling": _lines(each[names.AUTOSCALING], lease="allotment-autoscaler"),
    }
    return {name: gathered(grant(line, (CUSTOM_GROUP,)) for line in lines) for name, lines in made.items()}


def _lines(*statements: Iterable[str], lease: str = "") -> list[str]:
    """All statements together; a component that leads by a lease also writes events."""
    beside = (*recorder.RIGHTS, *leader.rights(lease)) if lease else ()
    return [line for statement in (*statements, beside) for line in statement]


def _everything(controllers: Iterable[str]) -> Iterator[Sequence[str]]:
    for name in controllers:
        yield suite.RIGHTS[name]
        yield suite.EMBEDDED_RIGHTS.get(name, ())
    yield from suite.PROVIDER_RIGHTS.values()


async def of_scheduler(service: Service, client: Client) -> list[Right]:
    """The rights that the scheduler needs on this server."""
    resources = [*(resource for resource, _ in driver.followed(await discover(client))), DEFINITIONS]
    return _asked(service, resources, driver.RIGHTS)


async def of_controllers(
    service: Service, client: Client, controllers: Sequence[str], provider: str = "simulated"
) -> list[Right]:
    """The rights that these controllers need on this server. To find out, they are constructed without being run: they then
    request the informers that they need."""
    informers = Informers(client)
    try:
        events = Recorder(client, service.lease)
        await suite.controllers(controllers, client, informers, events, provider=provider)
    except ImportError as exc:
        raise Failure(str(exc), "install, repair or remove the package that provides it") from exc
    stated = [suite.RIGHTS[name] + suite.EMBEDDED_RIGHTS.get(name, ()) for name in controllers]
    if names.MACHINES in controllers:
        stated.append(suite.PROVIDER_RIGHTS.get(provider, ()))
    return _asked(service, informers.resources(), _lines(*stated))


def _asked(service: Service, followed: Sequence[ResourcePath], stated: Sequence[str]) -> list[Right]:
    """The rights to follow these kinds, to write what the statements say, and to lead. A component writes a kind that it
    reads only if it follows that kind."""
    places = {(each.api_version.rpartition("/")[0], each.plural) for each in followed}
    kinds = {(right.group, right.resource) for right in granted(reads(stated))}
    writes = [
        right
        for right in granted((*stated, *recorder.RIGHTS[:1]))
        if right.verb not in READING and not right.resource.endswith(_UNASKED)
        if (place := (right.group, right.resource.partition("/")[0])) in places or place not in kinds
    ]
    leads = granted(leader.rights(service.lease), NAMESPACE) if service.leader_elect else []
    return [*reading(followed), *writes, *leads]
