"""Vendors' parameter objects become ResourceClaimParameters and ResourceClassParameters, as KEP-4381 describes.

Each driver has a :class:`~allotment.controllers.semantic.translator.Translator`. Each object of its kind has at most one
generated object:

* The object translates: the generated object has the translation, and names its source in ``generatedFrom``. Its name is
  derived from group, kind and name, so that a repetition never creates a second one (which would be ambiguous for claims).
* The translator or the server refuses it: the generated object is deleted, because it would no longer match the author's
  request, and an event on the vendor's object says why.
* The object is deleted: the generated object is deleted too. Where namespaces allow, the vendor's object owns it, so that
  this works even while this controller does not run.

Absence in a copy proves little: before anything is deleted for that reason, the server is asked, unless the vendor's whole
kind is gone. An object of that name that this controller did not create is left alone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from allotment.api import codec, semantic
from allotment.api.rights import READ
from allotment.api.status import BadRequest, Invalid, NotFound, TooLarge
from allotment.client.client import Client, Collection
from allotment.client.form import Obj, ResourcePath
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.controller import Again
from allotment.controllers.semantic import vendor_kinds
from allotment.controllers.semantic.translator import Translation, Translator, Untranslatable
from allotment.controllers.semantic.vendor_kinds import VendorKind, VendorKinds

log = logging.getLogger(__name__)

MADE_BY = "app.kubernetes.io/managed-by"
MAKER = "allotment-parameters"
_FIELDS = ("generatedFrom", "vendorParameters", "shareable", "requests", "filters")
_NOT_LISTED_YET = 30.0
_Content = semantic.ResourceClaimParameters | semantic.ResourceClassParameters


@dataclass(frozen=True, slots=True)
class VendorObject:
    """A vendor's object by name, with any uid."""

    kind: VendorKind
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.kind}.{self.kind.group} {where}"


class _Product:
    """One of the two generated kinds."""

    def __init__(self, client: Client, informers: Informers, type_: type, api_version: str) -> None:
        self.kind = type_.__name__
        self.api_version = api_version
        self.namespaced = type_ is semantic.ResourceClaimParameters
        plural = self.kind.lower()
        self.there = client.plain(api_version, plural, namespaced=self.namespaced)
        self.copy = informers.plain(api_version, plural, namespaced=self.namespaced)

    def namespace(self, source: VendorObject) -> str:
        return source.namespace if self.namespaced else ""

    def find(self, source: VendorObject) -> Obj | None:
        return self.copy.get(generated_name(source), self.namespace(source))


class Parameters:
    """Keeps generated parameters in agreement with their translators. ``api_version`` is where the server has our kinds."""

    name = "parameters"
    rights = (
        *vendor_kinds.RIGHTS,
        f"{READ}: ours: resourceclasses",
        f"{READ}: resource.k8s.io: resourceclaims",
        f"create,delete,patch,{READ}: ours: resourceclaimparameters,resourceclassparameters",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        kinds: VendorKinds,
        translators: Iterable[Translator],
        *,
        api_version: str = semantic.API_VERSION,
    ) -> None:
        """``kinds`` must already know the kinds of the translators."""
        self.queue: WorkQueue[VendorObject] = WorkQueue()
        self._recorder = recorder
        self._kinds = kinds
        self._translators: dict[tuple[str, str], Translator] = {}
        for translator in translators:
            kind = (translator.kind.group, translator.kind.kind)
            if (other := self._translators.setdefault(kind, translator)) is not translator:
                raise ValueError(f"{kind[1]}.{kind[0]} has two translators: {other.name}, {translator.name}")
        self._products = {
            type_: _Product(client, informers, type_, api_version)
            for type_ in (semantic.ResourceClaimParameters, semantic.ResourceClassParameters)
        }
        for product in self._products.values():
            product.copy.on_change(self._product_changed)
        kinds.on_change(self._vendor_changed)

    def _vendor_changed(self, resource: ResourcePath, old: Obj | None, new: Obj | None) -> None:
        group, _, version = resource.api_version.rpartition("/")
        translator = self._translators.get((group, resource.kind))
        if translator is not None and translator.kind.version in ("", version):
            meta = (new or old or {})["metadata"]
            self.queue.add(VendorObject(translator.kind, meta.get("namespace", ""), meta["name"]))

    def _product_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Called when a generated object was changed or deleted, and at the start with the list, which may contain leftovers."""
        if (obj := new or old) is not None and (source := self._source(obj)) is not None:
            self.queue.add(source)

    def _source(self, obj: Obj) -> VendorObject | None:
        """The source of a generated object; None for objects of others."""
        meta, origin = obj["metadata"], obj.get("generatedFrom") or {}
        translator = self._translators.get((origin.get("apiGroup", ""), origin.get("kind", "")))
        if translator is None or (meta.get("labels") or {}).get(MADE_BY) != MAKER:
            return None
        namespace = meta.get("namespace") or origin.get("namespace") or ""
        source = VendorObject(translator.kind, namespace, origin.get("name", ""))
        return source if generated_name(source) == meta["name"] else None

    async def reconcile(self, key: VendorObject) -> Again | None:
        translator = self._translators[key.kind.group, key.kind.kind]
        product = self._products[translator.makes]
        followed = self._kinds.find(key.kind)
        if self._kinds.is_gone(key.kind):
            await self._remove(product, key)
        elif followed is None or not followed.informer.version:
            return Again(_NOT_LISTED_YET, "the vendor's objects are not listed yet")
        elif (vendor := followed.informer.get(key.name, key.namespace)) is None:
            if product.find(key) is not None and not await _exists(followed.collection, key):
                await self._remove(product, key)
        elif not vendor["metadata"].get("deletionTimestamp"):
            await self._keep(translator, product, key, vendor)
        return None

    async def _keep(self, translator: Translator, product: _Product, key: VendorObject, vendor: Obj) -> None:
        """Creates, updates or deletes the one generated object."""
        present = product.find(key)
        if present is not None and self._source(present) != key:
            self._refuse(
                vendor,
                f"{product.kind} {generated_name(key)} exists and was not generated from it; rename or delete it",
            )
            return
        answer = _translated(translator, product, vendor)
        if isinstance(answer, Untranslatable):
            self._refuse(vendor, answer.words)
            await self._remove(product, key)
            return
        try:
            await self._write(product, present, _generated(product, key, vendor, answer))
        except (Invalid, BadRequest, TooLarge) as exc:
            self._refuse(vendor, f"the server refuses the translation of {translator.name}: {exc.message}")
            await self._remove(product, key)

    async def _write(self, product: _Product, present: Obj | None, wanted: Obj) -> None:
        if present is None:
            await product.there.create(wanted)
            return
        was = {name: present[name] for name in _FIELDS if name in present}
        patch = merge_patch(was, {name: wanted[name] for name in _FIELDS if name in wanted})
        owners = wanted["metadata"].get("ownerReferences", [])
        if present["metadata"].get("ownerReferences", []) != owners:
            patch["metadata"] = {"ownerReferences": owners}
        if patch and not present["metadata"].get("deletionTimestamp"):
            await product.there.change(present, patch)

    async def _remove(self, product: _Product, key: VendorObject) -> None:
        """Deletes the object generated from a source, in the state in which the copy has it."""
        present = product.find(key)
        if present is not None and self._source(present) == key:
            await product.there.remove(present)

    def _refuse(self, vendor: Obj, words: str) -> None:
        meta = vendor["metadata"]
        subject = Subject(
            vendor["apiVersion"], vendor["kind"], meta["name"], meta.get("namespace", ""), meta["uid"]
        )
        self._recorder.tell(subject, EventType.WARNING, "NotTranslated", words)


def generated_name(source: VendorObject) -> str:
    """The name of the object generated from a vendor's object: readable and unique."""
    words = "/".join((source.kind.group, source.kind.kind, source.namespace, source.name))
    digest = hashlib.sha256(words.encode()).hexdigest()[:10]
    return f"{source.name[:200].rstrip('.-')}-{digest}"


def merge_patch(old: Any, new: Any) -> Any:
    """The merge patch from one JSON object to the other. Neither has nulls as values: they mean absence, here as in
    Kubernetes."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {
        name: merge_patch(old.get(name), value) for name, value in new.items() if old.get(name) != value
    }
    return {**dict.fromkeys(old.keys() - new.keys()), **changed}


async def _exists(collection: Collection[Obj], key: VendorObject) -> bool:
    try:
        await collection.get(key.name, key.namespace)
    except NotFound:
        return False
    return True


def _translated(translator: Translator, product: _Product, vendor: Obj) -> Translation:
    """A translator's answer. A translator that fails counts as a refusal, with words for the operators of the driver."""
    if product.namespaced and not vendor["metadata"].get("namespace"):
        return Untranslatable("parameters of claims are in the claim's namespace; its kind has no namespaces")
    try:
        answer = translator.translate(vendor)
    except (Exception, SystemExit) as exc:  # foreign code: one object must not delay the others
        log.exception("%s failed to translate %s", translator.name, vendor["metadata"]["name"])
        return Untranslatable(f"{translator.name} failed to translate it: {type(exc).__name__}: {exc}")
    if not isinstance(answer, (translator.makes, Untranslatable)):
        return Untranslatable(
            f"{translator.name} returned a {type(answer).__name__} instead of {product.kind}"
        )
    return answer


def _generated(product: _Product, key: VendorObject, vendor: Obj, answer: _Content) -> Obj:
    """The whole object as it should be."""
    meta = vendor["metadata"]
    origin = {"apiGroup": key.kind.group, "kind": key.kind.kind, "name": key.name, "uid": meta["uid"]}
    if not product.namespaced and key.namespace:
        origin["namespace"] = key.namespace
    content = {name: value for name, value in codec.to_builtins(answer).items() if name in _FIELDS}
    ours: Obj = {"name": generated_name(key), "labels": {MADE_BY: MAKER}}
    if namespace := product.namespace(key):
        ours["namespace"] = namespace
    if namespace == key.namespace:  # an owner is in the same namespace or cluster-wide
        owner = {"apiVersion": vendor["apiVersion"], "kind": vendor["kind"], "name": key.name}
        ours["ownerReferences"] = [{**owner, "uid": meta["uid"], "controller": True}]
    whole = {"apiVersion": product.api_version, "kind": product.kind, "metadata": ours}
    return {**whole, **_without_nulls(content), "generatedFrom": origin}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
