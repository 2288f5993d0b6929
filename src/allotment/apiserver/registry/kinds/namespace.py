"""Namespaces: scopes for names and rights.

``spec.finalizers`` hold a namespace that is being deleted. It becomes Terminating; the controller that empties it then
removes its finalizer through /finalize, and the namespace goes away with the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, label_key_problem
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.resource import PrinterColumn, Resource, SubresourceView
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.store.record import Obj

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
ALWAYS_THERE = ("default", "kube-system", "kube-public", "kube-node-lease")


class _NamespaceRules(StrategyRules):
    """Adds the finalizer and the label with the name, and the turn to Terminating."""

    def default(self, obj: Obj, write: Write) -> None:
        super().default(obj, write)
        _label(obj["metadata"])

    def prepare_create(self, obj: Obj, write: Write) -> None:
        super().prepare_create(obj, write)
        _label(obj["metadata"])  # once more: the name may have been generated meanwhile
        finalizers = obj["spec"].get("finalizers") or []
        if FINALIZER not in finalizers:
            obj["spec"]["finalizers"] = [*finalizers, FINALIZER]

    def prepare_update(self, obj: Obj, old: Obj, write: Write) -> None:
        super().prepare_update(obj, old, write)
        if write.subresource != "finalize":
            obj["spec"] = old["spec"]

    def prepare_delete(self, obj: Obj, write: Write) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"

    def held(self, obj: Obj) -> bool:
        return bool(at(obj, "spec", "finalizers"))


def _label(metadata: Obj) -> None:
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


def _finalizers(namespace: Obj, body: Obj) -> None:
    namespace["spec"] = body.get("spec") or {}


def _check(namespace: Obj) -> Iterator[FieldError]:
    for index, finalizer in enumerate(namespace["spec"].get("finalizers") or ()):
        if finalizer != FINALIZER and "/" not in finalizer:
            yield (
                FieldPath("spec", "finalizers")
                .index(index)
                .invalid("name is neither a standard finalizer name nor is it fully qualified", finalizer)
            )
        elif problem := label_key_problem(finalizer):
            yield FieldPath("spec", "finalizers").index(index).invalid(problem, finalizer)


def _check_status(obj: Obj, old: Obj) -> Iterator[FieldError]:
    phase = at(obj, "status", "phase")
    wanted = "Terminating" if obj["metadata"].get("deletionTimestamp") else "Active"
    if phase != wanted:
        given = "is not empty" if wanted == "Terminating" else "is empty"
        yield FieldPath("status", "Phase").invalid(
            f"may only be '{wanted}' if `deletionTimestamp` {given}", phase
        )


def _initial(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


RESOURCES = (
    Resource(
        group="",
        version="v1",
        kind="Namespace",
        plural="namespaces",
        namespaced=False,
        short_names=("ns",),
        columns=(
            PrinterColumn(
                "Status",
                "string",
                lambda obj, now: at(obj, "status", "phase") or "",
                "Active or Terminating.",
            ),
            AGE,
        ),
        fields={"status.phase": lambda obj: at(obj, "status", "phase") or ""},
        name_problem=dns_label_problem,
        status=True,
        verbs=frozenset({"create", "delete", "get", "list", "patch", "update", "watch"}),
        views={
            "finalize": SubresourceView(
                "v1", "Namespace", lambda obj: obj, _finalizers, verbs=frozenset({"update"})
            )
        },
        initial=tuple(map(_initial, ALWAYS_THERE)),
        strategy=_NamespaceRules(
            stated=("spec",), status={"phase": "Active"}, check=_check, check_status=_check_status
        ),
        doc="A scope for names, rights and quotas.",
    ),
)
