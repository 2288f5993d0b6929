"""From a vendor's definition to parameters that the scheduler understands; and that each write on the way may fail."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.outcome import Allocated
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.api import codec, semantic
from allotment.api.core import Node, Pod
from allotment.api.meta import ObjectMeta
from allotment.apiserver.auth.identity import Identity
from allotment.client.client import Client, Collection
from allotment.client.form import Obj
from allotment.client.informer import Informer
from allotment.client.transport import Transport
from allotment.controllers.semantic import translator
from allotment.controllers.semantic.parameters import Parameters, VendorObject, generated_name, merge_patch
from allotment.controllers.semantic.translator import (
    ENTRY_POINTS,
    Translation,
    Translator,
    Untranslatable,
    snapshot,
)
from allotment.controllers.semantic.vendor_kinds import VendorKind, VendorKinds
from allotment.scheduler.cluster import Cluster as NoCluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from tests.checkout import CHECKOUT
from tests.controllers.cluster import Cluster, Component, in_cluster
from tests.controllers.failing import BORNE, CRASHES, Failing, Fault
from tests.thoroughness import examples

EXAMPLE = CHECKOUT / "examples" / "semantic" / "vendor"
AS_CUSTOM = EXAMPLE.parents[1] / "kubernetes" / "semantic.yaml"
API = "dra.example.com/v1alpha1"
ALPHA = "resource.k8s.io/v1alpha2"


def _load() -> Any:
    """The example's module: examples are no package."""
    spec = importlib.util.spec_from_file_location("card_translator", EXAMPLE / "card_translator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


cards = _load()
CARDS = VendorKind("dra.example.com", "CardParameters", "v1alpha1")


def documents(*kinds: str) -> list[Obj]:
    """The example's objects of these kinds."""
    every = list(yaml.safe_load_all((EXAMPLE / "card_parameters.yaml").read_text()))
    assert all(each["kind"] in ORDER for each in every)
    return [each for kind in kinds for each in every if each["kind"] == kind]


ORDER = {
    "CustomResourceDefinition": ("customresourcedefinitions", False),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Namespace": ("namespaces", False),
    "ResourceClass": ("resourceclasses", False),
    "CardClassParameters": ("cardclassparameters", False),
    "CardParameters": ("cardparameters", True),
    "ResourceClaim": ("resourceclaims", True),
    "Pod": ("pods", True),
}
DEFINITIONS = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace")


async def apply(client: Client, *objects: Obj) -> list[Obj]:
    made = []
    for obj in objects:
        plural, namespaced = ORDER[obj["kind"]]
        kind = client.plain(obj["apiVersion"], plural, namespaced=namespaced)
        if obj["kind"].startswith("Card"):
            await served(kind)
        made.append(await kind.create(obj))
    return made


async def served(kind: Collection[Obj]) -> None:
    """Returns when a kind that was just defined is there."""
    group = kind.resource.api_version.partition("/")[0]
    async with asyncio.timeout(60):
        while True:
            definitions = kind.client.plain(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
            )
            found = await definitions.get(f"{kind.resource.plural}.{group}")
            conditions = found.get("status", {}).get("conditions") or ()
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return
            await asyncio.sleep(0)


class Running:
    """The controller and what it needs, in one component."""

    def __init__(self, component: Component, translators: list[Translator], api_version: str) -> None:
        self.component = component
        self.kinds = VendorKinds(component.client, component.informers, [each.kind for each in translators])
        self.parameters = Parameters(
            component.client,
            component.informers,
            component.recorder,
            self.kinds,
            translators,
            api_version=api_version,
        )


async def start(
    cluster: Cluster,
    *translators: Translator,
    through: Callable[[Transport], Transport] = lambda beneath: beneath,
    api_version: str = ALPHA,
) -> Running:
    running = Running(
        cluster.component(through=through),
        list(translators) or [cards.CardParameters(), cards.CardClassParameters()],
        api_version,
    )
    running.component._spawn(running.kinds.run())
    running.component._spawn(running.component.informers.run())
    running.component._spawn(running.component.recorder.run())
    await running.component.start(running.parameters)
    return running


def vendor(cluster: Cluster) -> Collection[Obj]:
    return cluster.admin.plain(API, "cardparameters")


def made(cluster: Cluster, name: str = "my-parameters") -> Any:
    """What was generated from a CardParameters object, as the server has it; None if nothing."""
    copies = cluster.seen.plain(ALPHA, "resourceclaimparameters")
    return copies.get(generated_name(VendorObject(CARDS, "user-namespace", name)), "user-namespace")


def follow(cluster: Cluster) -> None:
    cluster.seen.plain(ALPHA, "resourceclaimparameters")
    cluster.seen.plain(ALPHA, "resourceclassparameters", namespaced=False)
    cluster.seen.plain("v1", "events")


def parameters(name: str = "my-parameters", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "user-namespace"}
    return {"apiVersion": API, "kind": "CardParameters", "metadata": meta, "spec": spec}


# --- the way from definition to claim ---


def test_a_vendors_objects_become_parameters_that_claims_find(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await start(cluster)  # before the kinds exist
        await apply(cluster.admin, *documents(*ORDER))
        generated = await cluster.eventually(lambda: made(cluster), "parameters are generated")
        uid = (await vendor(cluster).get("my-parameters", "user-namespace"))["metadata"]["uid"]
        origin = {
            "apiGroup": "dra.example.com",
            "kind": "CardParameters",
            "name": "my-parameters",
            "uid": uid,
        }
        assert generated["generatedFrom"] == origin
        assert generated["vendorParameters"]["spec"]["sharing"] == {"strategy": "TimeSliced"}
        assert generated["vendorParameters"]["metadata"] == {
            "name": "my-parameters",
            "namespace": "user-namespace",
            "uid": uid,
        }
        (request,) = generated["requests"]
        wish = 'versions["runtimeVersion"] >= "v12.0.0" && quantities["memory"] >= "8Gi"'
        assert [each["selector"] for each in request["partitionable"]["required"]] == [wish, wish]
        (owner,) = generated["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["kind"]) == (uid, "CardParameters")
        of_classes = cluster.seen.plain(ALPHA, "resourceclassparameters", namespaced=False)
        (of_class,) = await cluster.eventually(of_classes.all, "class parameters are generated")
        assert of_class["filters"][0]["partitionable"]["selector"] == 'quantities["memory"] <= "16Gi"'
        assert of_class["metadata"]["ownerReferences"][0]["name"] == "gpu-parameters"
        await check_found(cluster, generated, of_class)

    in_cluster(tmp_path, scenario)


async def check_found(cluster: Cluster, of_claim: Obj, of_class: Obj) -> None:
    """The allocator finds both by what they were generated from, and gives what the KEP's corrected example gives."""
    claims = cluster.admin.plain(ALPHA, "resourceclaims")
    claim = codec.decode(semantic.ResourceClaim, await claims.get("two-small-cards", "user-namespace"))
    book = SemanticBook(
        [codec.decode(semantic.ResourceClass, documents("ResourceClass")[0])],
        [codec.decode(semantic.ResourceClassParameters, of_class)],
        [codec.decode(semantic.ResourceClaimParameters, of_claim)],
    )
    items = yaml.safe_load((EXAMPLE.parent / "cards.yaml").read_text())["items"]
    slices = [codec.decode(semantic.NodeResourceSlice, each) for each in items if each["kind"] != "Node"]
    outcome = allocate_semantic(Node(metadata=ObjectMeta(name="worker-1")), slices, book, [claim])
    assert isinstance(outcome, Allocated)
    given = [result.device for result in outcome.results[0].devices.results]
    assert given == ["gpu-0", "partitionable-gpu-1/quarters/quarter-0"]


def test_a_pod_gets_its_cards_with_copies_of_what_the_vendor_said(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        pods = cluster.seen.of(Pod)
        fleet = yaml.safe_load((EXAMPLE.parent / "cards.yaml").read_text())["items"]
        for each in fleet:
            plural = "nodes" if each["kind"] == "Node" else "noderesourceslices"
            await cluster.admin.plain(each["apiVersion"], plural, namespaced=False).create(each)
        await apply(cluster.admin, *documents(*ORDER))
        scheduling = cluster.component(Identity("allotment:scheduler", ("system:authenticated",)))
        core = Scheduler(NoCluster(), DEFAULT.rosters())
        driver = Driver(core, scheduling.client, scheduling.informers, scheduling.recorder)
        await scheduling.start()
        scheduling._spawn(driver.run())
        await cluster.eventually(lambda: _told(pods), "the scheduler says what is missing")
        assert "parameters" in _told(pods)
        await start(cluster)
        await cluster.eventually(lambda: _pod(pods).spec.node_name, "the pod has a node")
        claims = cluster.admin.plain(ALPHA, "resourceclaims")
        claim = await claims.get("two-small-cards", "user-namespace")
        (handle,) = claim["status"]["allocation"]["resourceHandles"]
        given = [each["id"] for each in handle["semanticData"]["partitionable"]["instances"]]
        assert len(given) == 2
        assert not any("full-gpu" in id for id in given), "it is too large for the class"
        assert handle["semanticData"]["vendorClaimParameters"]["spec"]["sharing"] == {
            "strategy": "TimeSliced"
        }
        assert claim["status"]["reservedFor"][0]["name"] == "two-small-cards"

    in_cluster(tmp_path, scenario)


def _pod(pods: Informer[Pod]) -> Pod:
    found = pods.get("two-small-cards", "user-namespace")
    assert found is not None
    return found


def _told(pods: Informer[Pod]) -> str:
    conditions = pods.all() and _pod(pods).status.conditions
    return " ".join(each.message or "" for each in conditions or ())


CUSTOM = "allotment.dev/v1alpha2"


async def define(cluster: Cluster) -> dict[str, Collection[Obj]]:
    """Has our kinds served as custom resources, as on a cluster of Kubernetes' own; returns them."""
    definitions = list(yaml.safe_load_all(AS_CUSTOM.read_text()))
    there = cluster.admin.plain("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
    kinds: dict[str, Collection[Obj]] = {}
    for each in definitions:
        await there.create(each)
        names, namespaced = each["spec"]["names"], each["spec"]["scope"] == "Namespaced"
        kinds[names["kind"]] = cluster.admin.plain(CUSTOM, names["plural"], namespaced=namespaced)
        await served(kinds[names["kind"]])
    return kinds


def test_our_kinds_lose_nothing_as_custom_resources(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kinds = await define(cluster)
        await apply(cluster.admin, *documents("Namespace"))
        written = 0
        for path in sorted(EXAMPLE.parent.glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                for each in document.get("items", [document]):
                    if each["kind"] in kinds:
                        made = await kinds[each["kind"]].create({**each, "apiVersion": CUSTOM})
                        content = {
                            name: made[name] for name in each if name not in ("apiVersion", "metadata")
                        }
                        assert content == {name: each[name] for name in content}
                        written += 1
        assert written == 6

    in_cluster(tmp_path, scenario)


def test_parameters_are_made_where_the_server_has_them_as_custom_resources(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        kinds = await define(cluster)
        copies = cluster.seen.plain(CUSTOM, "resourceclaimparameters")
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        await start(cluster, api_version=CUSTOM)
        (generated,) = await cluster.eventually(copies.all, "parameters are generated")
        assert generated["generatedFrom"]["name"] == "my-parameters"
        assert generated["vendorParameters"]["spec"]["sharing"] == {"strategy": "TimeSliced"}
        (stored,) = (await kinds["ResourceClaimParameters"].list("user-namespace")).items
        assert len(stored["requests"][0]["partitionable"]["required"]) == 2

    in_cluster(tmp_path, scenario)


def test_changes_of_the_vendors_object_are_followed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        await start(cluster)
        first = await cluster.eventually(lambda: made(cluster))
        patch = {"spec": {"count": 1, "sharing": None, "minimumMemory": None}}
        await vendor(cluster).patch("my-parameters", patch, "user-namespace")
        await cluster.eventually(
            lambda: "sharing" not in (made(cluster) or first)["vendorParameters"]["spec"]
        )
        second = made(cluster)
        assert [r["selector"] for r in second["requests"][0]["partitionable"]["required"]] == [
            'versions["runtimeVersion"] >= "v12.0.0"'
        ]
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        await vendor(cluster).delete("my-parameters", "user-namespace")
        await cluster.eventually(lambda: made(cluster) is None, "the generated object goes with it")
        await vendor(cluster).create(parameters(count=1))
        third = await cluster.eventually(lambda: made(cluster), "and comes again")
        assert third["generatedFrom"]["uid"] != first["generatedFrom"]["uid"]
        assert third["metadata"]["ownerReferences"][0]["uid"] == third["generatedFrom"]["uid"]

    in_cluster(tmp_path, scenario)


def test_what_we_made_is_kept_as_it_should_be(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        await start(cluster)
        first = await cluster.eventually(lambda: made(cluster))
        there = cluster.admin.plain(ALPHA, "resourceclaimparameters")
        name = first["metadata"]["name"]
        await there.patch(name, {"requests": [], "shareable": True}, "user-namespace")
        await cluster.eventually(lambda: (made(cluster) or {}).get("requests"), "it is put right")
        assert "shareable" not in (made(cluster) or {})
        await there.delete(name, "user-namespace")
        again = await cluster.eventually(
            lambda: (
                (found := made(cluster)) and found["metadata"]["uid"] != first["metadata"]["uid"] and found
            )
        )
        assert again["requests"] == first["requests"]

    in_cluster(tmp_path, scenario)


REFUSED = [
    ("memory", {"minimumMemory": "8 apples"}, "spec.minimumMemory: "),
    ("version", {"minimumRuntimeVersion": "twelve"}, "spec.minimumRuntimeVersion: "),
]


@pytest.mark.parametrize(("name", "spec", "words"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_what_no_longer_translates_goes_and_its_author_hears_why(
    name: str, spec: Obj, words: str, tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        await start(cluster)
        await cluster.eventually(lambda: made(cluster))
        await vendor(cluster).patch("my-parameters", {"spec": spec}, "user-namespace")
        await cluster.eventually(lambda: made(cluster) is None, "the generated object goes")
        told = await cluster.eventually(lambda: cluster.events("my-parameters"))
        assert told[0].startswith(f"NotTranslated: {words}")

    in_cluster(tmp_path, scenario)


class Odd:
    """Translates what its object says, or fails."""

    name = "odd"
    kind = CARDS
    makes: type[semantic.ResourceClaimParameters] | type[semantic.ResourceClassParameters] = (
        semantic.ResourceClaimParameters
    )

    def translate(self, obj: Obj) -> Translation:
        if obj["spec"]["minimumMemory"] == "fail":
            raise RuntimeError("out of paper")
        if obj["spec"]["minimumMemory"] == "other":
            return semantic.ResourceClassParameters()
        entry = semantic.PartitionableResourceRequest(selector=obj["spec"]["minimumMemory"])
        required = semantic.PartitionableResourceRequests(required=(entry,))
        request = semantic.ResourceRequest(driver_name="d.example.com", partitionable=required)
        return semantic.ResourceClaimParameters(requests=(request,), vendor_parameters=obj)


def test_neither_failing_translators_nor_what_the_server_refuses_stops_the_others(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS))
        await start(cluster, Odd())
        for name, memory in (
            ("fails", "fail"),
            ("mistaken", "other"),
            ("invalid", 'strings["x" =='),
            ("fine", 'strings["x"] == "y"'),
        ):
            await apply(cluster.admin, parameters(name, minimumMemory=memory))
        await cluster.eventually(lambda: made(cluster, "fine"))
        failed = await cluster.eventually(lambda: cluster.events("fails"))
        assert failed == ["NotTranslated: odd failed to translate it: RuntimeError: out of paper"]
        mistaken = await cluster.eventually(lambda: cluster.events("mistaken"))
        made_of_it = "odd returned a ResourceClassParameters instead of ResourceClaimParameters"
        assert mistaken == [f"NotTranslated: {made_of_it}"]
        refused = await cluster.eventually(lambda: cluster.events("invalid"))
        assert refused[0].startswith("NotTranslated: the server refuses the translation of odd: ")
        assert made(cluster, "fails") is None
        assert made(cluster, "invalid") is None

    in_cluster(tmp_path, scenario)


def test_parameters_of_claims_cannot_be_made_of_objects_without_a_namespace(tmp_path: Path) -> None:
    class OfTheCluster(Odd):
        kind = VendorKind("dra.example.com", "CardClassParameters")

    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardClassParameters"))
        await start(cluster, OfTheCluster())
        told = await cluster.eventually(lambda: cluster.events("gpu-parameters"))
        assert told == [
            "NotTranslated: parameters of claims are in the claim's namespace; its kind has no namespaces"
        ]

    in_cluster(tmp_path, scenario)


def test_an_object_of_the_name_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS))
        name = generated_name(VendorObject(CARDS, "user-namespace", "my-parameters"))
        theirs = {"apiVersion": ALPHA, "kind": "ResourceClaimParameters", "metadata": {"name": name}}
        there = cluster.admin.plain(ALPHA, "resourceclaimparameters")
        before = await there.create(theirs, "user-namespace")
        await start(cluster)
        await apply(cluster.admin, *documents("CardParameters"))
        told = await cluster.eventually(lambda: cluster.events("my-parameters"))
        assert told[0].startswith(
            f"NotTranslated: ResourceClaimParameters {name} exists and was not generated"
        )
        await vendor(cluster).delete("my-parameters", "user-namespace")
        await cluster.quiet()
        after = await there.get(name, "user-namespace")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    in_cluster(tmp_path, scenario)


def test_what_was_left_over_while_nobody_ran_goes(tmp_path: Path) -> None:
    """No owner: parameters of classes made from objects in namespaces have none."""

    class InNamespaces(Odd):
        makes = semantic.ResourceClassParameters

        def translate(self, obj: Obj) -> Translation:
            return semantic.ResourceClassParameters(vendor_parameters=snapshot(obj))

    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        first = await start(cluster, InNamespaces())
        of_classes = cluster.seen.plain(ALPHA, "resourceclassparameters", namespaced=False)
        (generated,) = await cluster.eventually(of_classes.all)
        assert generated["generatedFrom"]["namespace"] == "user-namespace"
        assert "ownerReferences" not in generated["metadata"]
        await first.component.stop()
        await vendor(cluster).delete("my-parameters", "user-namespace")
        second = await start(cluster, InNamespaces())
        await cluster.eventually(lambda: second.kinds.find(CARDS))
        followed = second.kinds.find(CARDS)
        assert followed is not None
        await followed.informer.synced()
        second.parameters.queue.add(VendorObject(CARDS, "user-namespace", "my-parameters"))  # the timer would
        await cluster.eventually(lambda: not of_classes.all(), "it goes")

    in_cluster(tmp_path, scenario)


def test_absence_in_the_copy_is_no_proof(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        running = await start(cluster)
        before = await cluster.eventually(lambda: made(cluster))
        await cluster.quiet()
        followed = running.kinds.find(CARDS)
        assert followed is not None
        del followed.informer._objects["user-namespace", "my-parameters"]  # as if it had come later
        await running.parameters.reconcile(VendorObject(CARDS, "user-namespace", "my-parameters"))
        await cluster.quiet()
        assert made(cluster) == before

    in_cluster(tmp_path, scenario)


def test_a_definition_that_goes_takes_all_with_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        running = await start(cluster)
        await cluster.eventually(lambda: made(cluster))
        definitions = cluster.admin.plain(
            "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
        )
        await definitions.delete("cardparameters.dra.example.com")
        await cluster.eventually(lambda: made(cluster) is None, "the generated object goes")
        await cluster.eventually(lambda: running.kinds.find(CARDS) is None, "nobody follows the kind")

    in_cluster(tmp_path, scenario)


@pytest.mark.parametrize("how", [*BORNE, *sorted(CRASHES, key=str)], ids=lambda how: how.name)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_any_write_may_fail(at: int, how: Fault, tmp_path: Path) -> None:
    """The three writes: create, change, delete. The last has no owner to do it for us."""

    class Keeping(Odd):
        def translate(self, obj: Obj) -> Translation:
            if obj["spec"].get("minimumMemory") == "none":
                return Untranslatable("not now")
            return semantic.ResourceClaimParameters(vendor_parameters=snapshot(obj))

    async def scenario(cluster: Cluster) -> None:
        follow(cluster)
        await apply(cluster.admin, *documents(*DEFINITIONS, "CardParameters"))
        failing = Failing.once(at, how)

        running = await start(cluster, Keeping(), through=failing.through)

        async def reach(number: int, condition: Callable[[], object]) -> None:
            nonlocal running
            if number == at:
                await failing.strike()
                if how in CRASHES:
                    await running.component.stop()
                    running = await start(cluster, Keeping())
            await cluster.eventually(condition, f"write {number} of {how.name}")

        await reach(1, lambda: made(cluster))
        await vendor(cluster).patch("my-parameters", {"spec": {"count": 7}}, "user-namespace")
        await reach(
            2, lambda: (made(cluster) or {}).get("vendorParameters", {}).get("spec", {}).get("count") == 7
        )
        await vendor(cluster).patch("my-parameters", {"spec": {"minimumMemory": "none"}}, "user-namespace")
        await reach(3, lambda: made(cluster) is None)
        assert len(cluster.seen.plain(ALPHA, "resourceclaimparameters")) == 0

    in_cluster(tmp_path, scenario)


# --- parts ---


def test_two_translators_for_a_kind_are_refused() -> None:
    class NoInformers:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} is not needed for this")

    nothing: Any = NoInformers()
    with pytest.raises(ValueError, match=r"CardParameters\.dra\.example\.com has two translators: .*, odd"):
        Parameters(nothing, nothing, nothing, nothing, [cards.CardParameters(), Odd()])


def test_installed_packages_bring_their_translators(monkeypatch: pytest.MonkeyPatch) -> None:
    package = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    named = package["entry-points"][ENTRY_POINTS].items()
    offered = [EntryPoint(name, value, ENTRY_POINTS) for name, value in named]
    monkeypatch.setattr(translator, "entry_points", lambda group: offered if group == ENTRY_POINTS else [])
    whole = translator.installed()
    assert [each.kind.kind for each in whole.translators] == ["CardParameters", "CardClassParameters"]
    assert whole.faults == ()


BROKEN = [
    ("card_translator:Missing", "cannot be used: AttributeError"),
    ("no_such_package:Anything", "cannot be used: ModuleNotFoundError"),
    ("sys:exit", "cannot be used: SystemExit"),
    ("builtins:object", "cannot be used: AttributeError"),
    ("card_translator:CardParameters", "is not used: CardParameters.dra.example.com has"),
]


@pytest.mark.parametrize(("value", "fault"), BROKEN)
def test_a_package_that_is_broken_does_not_keep_the_others_from_working(
    monkeypatch: pytest.MonkeyPatch, value: str, fault: str
) -> None:
    package = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    named = package["entry-points"][ENTRY_POINTS].items()
    offered = [EntryPoint(name, value, ENTRY_POINTS) for name, value in named]
    offered.append(EntryPoint("broken", value, ENTRY_POINTS))
    monkeypatch.setattr(translator, "entry_points", lambda group: offered)
    found = translator.installed()
    assert [each.kind.kind for each in found.translators] == ["CardParameters", "CardClassParameters"]
    assert len(found.faults) == 1
    assert found.faults[0].startswith(f"translator broken ({value}) {fault}")


def test_names_differ_where_objects_do() -> None:
    other = VendorKind("other.example.com", "CardParameters")
    sources = [
        VendorObject(kind, namespace, name)
        for kind in (CARDS, other)
        for namespace in ("a", "b")
        for name in ("x", "y", "z" * 253, "z" * 252 + "y")
    ]
    names = {generated_name(source) for source in sources}
    assert len(names) == len(sources)
    assert max(map(len, names)) <= 253
    versions = [VendorKind("g.example.com", "K", version) for version in ("v1", "v2", "")]
    assert len({generated_name(VendorObject(kind, "a", "x")) for kind in versions}) == 1


leaves = st.sampled_from([0, "a", [], [{"a": 1}]])
branches = st.dictionaries(
    st.sampled_from("abc"), leaves | st.dictionaries(st.sampled_from("ab"), leaves), max_size=3
)
json_objects = st.dictionaries(st.sampled_from("abc"), leaves | branches, max_size=3)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@settings(max_examples=examples(50))
@given(json_objects, json_objects)
def test_a_merge_patch_makes_one_object_the_other(old: Obj, new: Obj) -> None:
    patch = merge_patch(old, new)
    assert merged(old, patch) == new
    assert (patch == {}) == (old == new)


@pytest.mark.parametrize("text", ['8Gi" || true || "', "v1\n", '"'])
def test_texts_cannot_become_expressions(text: str) -> None:
    answer = cards.CardParameters().translate(parameters(minimumMemory=text))
    assert isinstance(answer, Untranslatable)
