"""Creates the claims that pods and pod groups request by template, and writes their names into the owners' statuses.

A pod costs one write for each such entry, and one for its status; nothing is read from the server. A pod that needs nothing
is recognised when its change arrives, and never queued.

**Exactly once.** The name of a claim is derived from its owner and entry (:func:`claims.claim_name`). So the server refuses
to create it a second time, whatever was lost or forgotten in between, and this answer counts as success if the existing claim
is the owner's. If the owner controls a claim with another name, which another controller created for the same entry, that
claim is accepted.

**Nothing is overwritten.** The status is changed by a strategic patch for this very uid, which merges entries by name. If a
claim disappears while its owner still needs it, it is created again.

**Groups.** If an entry of a pod equals an entry of its pod group (name and template), it stands for the group's claim. That
claim is created once, for the group, and its name is copied into the status of each member.

**Old copies.** A pod may be known before its template, so the server is asked for the template before the pod gets an event
that it is missing. The copies must contain this controller's own writes for an owner before it looks at that owner again
(``own_writes``); otherwise it would try in vain to create its claims again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from allotment.api.batch import SCHEDULING
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Pod
from allotment.api.resource import API_VERSION, ResourceClaim
from allotment.api.rights import READ
from allotment.api.status import AlreadyExists, Conflict, NotFound, StatusError
from allotment.client.client import Client, PatchType
from allotment.client.form import Obj
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.claims import claim_users as claims
from allotment.controllers.claims.claim_users import MEMBERS
from allotment.controllers.claims.metrics import ClaimCreations
from allotment.controllers.controller import Again
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.ownership import (
    CONTROLLED,
    controller_of,
    controller_reference,
    controller_uid,
    plain_controller_of,
)

REASON = "FailedResourceClaimCreation"
TEMPLATE = "claim template"
"""Index of pods and groups: namespace and name of the templates of their entries."""
_TAKEN_SECONDS = 30.0


class OwnerKey(NamedTuple):
    """A pod or a pod group."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TemplateOwner:
    """A pod or a pod group, with the facts that matter here.

    ``wanted`` has the templates by entry; ``shared`` has the known names of the group's claims by entry; ``recorded`` is the
    content of its status: an entry without a name needs no claim.
    """

    key: OwnerKey
    api_version: str
    uid: str
    wanted: Mapping[str, str]
    shared: Mapping[str, str]
    recorded: Mapping[str, str | None]

    def subject(self) -> Subject:
        return Subject(self.api_version, self.key.kind, self.key.name, self.key.namespace, self.uid)

    def reference(self) -> Obj:
        return controller_reference(self.api_version, self.key.kind, self.key.name, self.uid)


class _NameTaken(Exception):
    """Another claim has the name; the message is for the owner."""


class TemplateClaims:
    """The reconciler; its keys are pods and pod groups. ``groups`` says whether the server has pod groups."""

    name = "template-claims"
    rights = (
        f"{READ}: core: pods",
        f"{READ}: resource.k8s.io: resourceclaims,resourceclaimtemplates",
        f"{READ}: scheduling.k8s.io: podgroups",
        "create: resource.k8s.io: resourceclaims",
        "patch: core: pods/status",
        "patch: scheduling.k8s.io: podgroups/status",
        # to own claims so that they go with their owner, where the cluster asks for this right
        "update: core: pods/finalizers",
        "update: scheduling.k8s.io: podgroups/finalizers",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        groups: bool = True,
        creations: ClaimCreations | None = None,
    ) -> None:
        self.queue: WorkQueue[OwnerKey] = WorkQueue()
        self._recorder = recorder
        self._creations = creations
        self._claims = client.plain(API_VERSION, "resourceclaims")
        self._live_templates = client.plain(API_VERSION, "resourceclaimtemplates")
        self._writers = {
            "Pod": client.plain("v1", "pods"),
            "PodGroup": client.plain(SCHEDULING, "podgroups"),
        }
        self._seen = informers.of(ResourceClaim)
        self._pods = informers.of(Pod)
        self._templates = informers.plain(API_VERSION, "resourceclaimtemplates")
        self._groups = informers.plain(SCHEDULING, "podgroups") if groups else None
        self._made: OwnWrites[OwnerKey] = OwnWrites(self._seen)
        self._told = {"Pod": OwnWrites[OwnerKey](self._pods)}
        if self._groups is not None:
            self._told["PodGroup"] = OwnWrites(self._groups)
        self._follow()

    def _follow(self) -> None:
        self._seen.add_index(CONTROLLED, controller_uid)
        self._pods.add_index(TEMPLATE, _pod_templates)
        self._pods.add_index(MEMBERS, claims.membership)
        self._seen.on_change(self._claim_changed)
        self._templates.on_change(self._template_changed)
        self._pods.on_change(self._pod_changed)
        if self._groups is not None:
            self._groups.add_index(TEMPLATE, _group_templates)
            self._groups.on_change(self._group_changed)

    # --- who is worth a look; called for every change of every pod ---

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.spec.resource_claims:
            return
        if old is not None and old is not new and _same_claims(old, new):
            return  # a template, a group, a claim or a retry supplies what it lacks; each brings the pod back
        owner = self._pod(new)
        if owner is not None and self._lacks(owner, first=old is None):
            self.queue.add(owner.key)

    def _group_changed(self, old: Obj | None, new: Obj | None) -> None:
        owner = None if new is None else _group(new)
        if new is None or (old is not None and old is not new and _group(old) == owner):
            return
        if owner is not None and self._lacks(owner, first=old is None):
            self.queue.add(owner.key)
        # Members wait for their group even if the group has no claims itself.
        for pod in self._pods.by(MEMBERS, (new["metadata"]["namespace"], new["metadata"]["name"])):
            self._pod_changed(None if old is None else pod, pod)

    def _template_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            return
        place = (new["metadata"]["namespace"], new["metadata"]["name"])
        for pod in self._pods.by(TEMPLATE, place):
            self._pod_changed(pod, pod)
        for group in () if self._groups is None else self._groups.by(TEMPLATE, place):
            self._group_changed(group, group)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None or old is None:
            return
        owner = controller_of(old)
        if owner is not None and (claims.is_pod(owner) or claims.is_group(owner)):
            self.queue.add(OwnerKey(owner.kind, old.metadata.namespace, owner.name))

    def _lacks(self, owner: TemplateOwner, *, first: bool) -> bool:
        """Whether something can be done for an owner now. A missing template is reported when the owner is first seen, and
        not at each later change that others make to it."""
        if any(owner.recorded.get(entry) != name for entry, name in owner.shared.items()):
            return True
        return any(
            first or self._templates.get(template, owner.key.namespace) is not None
            for entry, template in owner.wanted.items()
            if not self._has(owner, entry)
        )

    def _has(self, owner: TemplateOwner, entry: str) -> bool:
        """Whether the status names a claim for an entry, and that claim exists and is the owner's."""
        if entry not in owner.recorded:
            return False
        name = owner.recorded[entry]
        if name is None:  # another controller found that none is needed
            return True
        claim = self._seen.get(name, owner.key.namespace)
        return claim is not None and controller_uid(claim) == [owner.uid]

    # --- one owner ---

    async def reconcile(self, key: OwnerKey) -> Again | None:
        await self._seen.synced()
        await self._templates.synced()
        await self._made.seen(key)
        if key.kind in self._told:
            await self._told[key.kind].seen(key)
        owner = self._find(key)
        if owner is None:
            return None
        names, again = dict(owner.shared), None
        for entry, template in owner.wanted.items():
            if self._has(owner, entry):
                continue
            try:
                name = await self._make(owner, entry, template)
            except _NameTaken as exc:
                self._tell(owner, str(exc))
                again = Again(_TAKEN_SECONDS, "a claim's name is taken")
            else:
                names |= {} if name is None else {entry: name}
        await self._record(owner, names)
        return again

    def _find(self, key: OwnerKey) -> TemplateOwner | None:
        if key.kind == "Pod":
            pod = self._pods.get(key.name, key.namespace)
            return None if pod is None else self._pod(pod)
        group = None if self._groups is None else self._groups.get(key.name, key.namespace)
        return None if group is None else _group(group)

    async def _make(self, owner: TemplateOwner, entry: str, template: str) -> str | None:
        """The name of the claim for an entry, which now exists; None if the template does not exist."""
        for claim in self._seen.by(CONTROLLED, owner.uid):
            if claim.metadata.annotations.get(POD_CLAIM_NAME) == entry:
                return claim.metadata.name
        found = await self._template(owner, template)
        if found is None:
            place = f"{owner.key.namespace}/{template}"
            self._tell(
                owner,
                f"the claim {entry!r} will be created as soon as the ResourceClaimTemplate {place} exists",
            )
            return None
        claim_manifest = manifest(owner, entry, found)
        name: str = claim_manifest["metadata"]["name"]
        try:
            made = await self._create(claim_manifest, owner, entry)
        except AlreadyExists:
            made = await self._existing(owner, name)
        self._made.wrote(owner.key, made["metadata"]["resourceVersion"])
        return name

    async def _template(self, owner: TemplateOwner, name: str) -> Obj | None:
        found = self._templates.get(name, owner.key.namespace)
        if found is None:
            try:
                found = await self._live_templates.get(name, owner.key.namespace)
            except NotFound:
                return None
        return found

    async def _create(self, claim: Obj, owner: TemplateOwner, entry: str) -> Obj:
        try:
            made = await self._claims.create(claim, owner.key.namespace)
        except AlreadyExists:
            raise
        except StatusError as exc:
            self._count(False, claim)
            if (
                not isinstance(exc, Conflict) and exc.code < 500
            ):  # the author of the template can correct this
                self._tell(owner, f"the claim {entry!r} cannot be created: {exc}")
            raise
        self._count(True, claim)
        return made

    async def _existing(self, owner: TemplateOwner, name: str) -> Obj:
        """The claim that has the derived name, if it is the owner's."""
        found = await self._claims.get(name, owner.key.namespace)
        theirs = plain_controller_of(found)
        if theirs is not None and theirs["uid"] == owner.uid:
            return found
        raise _NameTaken(
            f"there is a ResourceClaim {owner.key.namespace}/{name} that was not created for this {owner.key.kind}; "
            "delete it, and a new one will be created"
        )

    async def _record(self, owner: TemplateOwner, names: Mapping[str, str]) -> None:
        news = [
            {"name": entry, "resourceClaimName": name}
            for entry, name in sorted(names.items())
            if owner.recorded.get(entry) != name
        ]
        if not news:
            return
        written = await self._writers[owner.key.kind].amend(
            owner.key.name,
            {"status": {"resourceClaimStatuses": news}},
            owner.key.namespace,
            type_=PatchType.STRATEGIC,
            subresource="status",
            uid=owner.uid,
        )
        self._told[owner.key.kind].wrote(owner.key, written.version)

    def _tell(self, owner: TemplateOwner, message: str) -> None:
        self._recorder.tell(owner.subject(), EventType.WARNING, REASON, message)

    def _count(self, succeeded: bool, claim: Obj) -> None:
        if self._creations is not None:
            self._creations.count(succeeded, claim)

    # --- owners ---

    def _pod(self, pod: Pod) -> TemplateOwner | None:
        """None for pods that need no claims from templates (any more), and for members of an unknown group."""
        meta = pod.metadata
        if meta.deletion_timestamp is not None or claims.is_done(pod):
            return None
        wanted = {
            entry.name: entry.resource_claim_template_name
            for entry in pod.spec.resource_claims
            if entry.resource_claim_template_name
        }
        if not wanted:
            return None
        recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        shared: dict[str, str] = {}
        if self._groups is not None and (name := claims.group_of(pod)):
            group = self._groups.get(name, meta.namespace)
            if group is None:
                return None
            ours, known = _entries(group), _recorded(group)
            common = [entry for entry, template in wanted.items() if ours.get(entry) == template]
            shared = {entry: known[entry] or "" for entry in common if known.get(entry)}
            wanted = {entry: template for entry, template in wanted.items() if entry not in common}
        return TemplateOwner(
            OwnerKey("Pod", meta.namespace, meta.name), "v1", meta.uid, wanted, shared, recorded
        )


def manifest(owner: TemplateOwner, entry: str, template: Obj) -> Obj:
    """The claim to create for an entry of its owner."""
    spec: Obj = template.get("spec") or {}
    given = spec.get("metadata") or {}
    metadata: Obj = {
        "name": claims.claim_name(owner.key.name, entry, owner.uid),
        "namespace": owner.key.namespace,
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [owner.reference()],
        "finalizers": [claims.finalizer_for(spec.get("spec") or {})],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def _group(group: Obj) -> TemplateOwner | None:
    meta = group["metadata"]
    wanted = _entries(group)
    if meta.get("deletionTimestamp") or not wanted:
        return None
    key = OwnerKey("PodGroup", meta["namespace"], meta["name"])
    return TemplateOwner(key, SCHEDULING, meta["uid"], wanted, {}, _recorded(group))


def _entries(group: Obj) -> dict[str, str]:
    """The templates of a group's entries, where they have one."""
    entries: list[Any] = (group.get("spec") or {}).get("resourceClaims") or []
    return {
        entry["name"]: entry["resourceClaimTemplateName"]
        for entry in entries
        if entry.get("resourceClaimTemplateName")
    }


def _recorded(group: Obj) -> dict[str, str | None]:
    statuses: list[Any] = (group.get("status") or {}).get("resourceClaimStatuses") or []
    return {status["name"]: status.get("resourceClaimName") for status in statuses}


def _same_claims(old: Pod, new: Pod) -> bool:
    """Whether the claims are the same; the spec's part never changes."""
    return old.status.resource_claim_statuses == new.status.resource_claim_statuses


def _pod_templates(pod: Pod) -> list[tuple[str, str]]:
    return [
        (pod.metadata.namespace, entry.resource_claim_template_name)
        for entry in pod.spec.resource_claims
        if entry.resource_claim_template_name
    ]


def _group_templates(group: Obj) -> list[tuple[str, str]]:
    return [(group["metadata"]["namespace"], template) for template in _entries(group).values()]
