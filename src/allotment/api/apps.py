"""DaemonSet (apps/v1): the fields that tell which pods a new node will run."""

from __future__ import annotations

from typing import ClassVar

from allotment.api.core import PodSpec
from allotment.api.meta import ApiStruct, LabelSelector, ObjectMeta, stated


class PodTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The template that pods are made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class DaemonSetSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pods the DaemonSet runs."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {"minReadySeconds", "revisionHistoryLimit", "updateStrategy"}
    )

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(ApiStruct, frozen=True, kw_only=True):
    """Runs one pod of a template on each node that the template allows."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"status"})

    api_version: str = stated("apps/v1")
    kind: str = stated("DaemonSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
