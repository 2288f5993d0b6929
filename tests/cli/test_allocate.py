"""What `allot allocate` makes of pods, claims, nodes and what is allocated already."""

import json
from typing import Any

import pytest

from tests.builders.plain import claim, claim_template, node, pod
from tests.command_line import Allot, Ran

Json = dict[str, Any]
V1 = "resource.k8s.io/v1"
ALPHA = "resource.k8s.io/v1alpha2"


def labelled_node(name: str, *, cordoned: bool = False, **labels: str) -> Json:
    return node(name, labels, spec={"unschedulable": True} if cordoned else {})


def devices(where: str, *names: str, **fields: Any) -> Json:
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "d.example.com",
        "pool": pool,
        "nodeName": where,
        "devices": [{"name": n} for n in names],
    }
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": where},
        "spec": {**spec, **fields},
    }


CLASS: Json = {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}


def any_claim(name: str, count: int = 1, **metadata: Any) -> Json:
    return claim(name, "any", request="r", count=count, meta=metadata)


def allocated(name: str, where: str, device: str) -> Json:
    result = {"request": "r", "driver": "d.example.com", "pool": where, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return {**any_claim(name), "status": {"allocation": allocation}}


def any_template(name: str, count: int = 1) -> Json:
    return claim_template(name, "any", request="r", count=count)


def claiming_pod(
    name: str, *claims: str, templates: tuple[str, ...] = (), status: Any = None, **spec: Any
) -> Json:
    return pod(name, claims=claims, templates=templates, status=status or {}, **{"containers": [], **spec})


def run(allot: Allot, *objects: Json, options: tuple[str, ...] = ()) -> Ran:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLASS, *objects]})
    return allot("allocate", "-f", "-", *options, stdin=text)


def given(allot: Allot, *objects: Json, options: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Claim → pool/device of everything it has."""
    ran = run(allot, *objects, options=(*options, "-o", "json"))
    return {
        item["metadata"]["name"]: [
            f"{result['pool']}/{result['device']}"
            for result in item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        ]
        for item in json.loads(ran.out)["items"]
    }


def test_without_nodes_they_are_made_up_from_the_slices(allot: Allot) -> None:
    ran = run(allot, devices("n1", "a"), any_claim("c"))
    assert ran.code == 0
    assert "note: no Node given: 1 made up from the slices, without labels (n1)" in ran.out


def test_slices_of_nodes_that_are_not_given_are_out_of_reach(allot: Allot) -> None:
    ran = run(allot, labelled_node("n1"), devices("n2", "a"), any_claim("c"))
    assert ran.code == 1
    assert "note: there are slices of nodes that are not given; their devices are out of reach: n2" in ran.out


def test_without_any_node_the_answer_says_what_to_give(allot: Allot) -> None:
    assert "there is no node to try; give Node objects" in run(allot, any_claim("c")).out


def test_what_is_allocated_already_is_held(allot: Allot) -> None:
    objects = [devices("n1", "a", "b"), allocated("old", "n1", "a"), any_claim("new")]
    assert given(allot, *objects) == {"old": ["n1/a"], "new": ["n1/b"]}


def test_a_device_that_was_promised_twice_is_noted(allot: Allot) -> None:
    ran = run(allot, devices("n1", "a"), allocated("one", "n1", "a"), allocated("two", "n1", "a"))
    assert "claim default/two: device d.example.com/n1/a is already in use by claim default/one" in ran.out
    assert ran.code == 0


def test_higher_priority_then_age_then_name_comes_first(allot: Allot) -> None:
    old = {**any_claim("z"), "metadata": {"name": "z", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    new = {**any_claim("a"), "metadata": {"name": "a", "creationTimestamp": "2026-02-01T00:00:00Z"}}
    urgent = claiming_pod("urgent", templates=("t",), priority=5)
    objects = [devices("n1", "d1", "d2"), old, new, any_template("t"), urgent]
    assert given(allot, *objects) == {"urgent-t": ["n1/d1"], "z": ["n1/d2"], "a": []}


def test_all_claims_of_a_pod_go_to_one_node_or_none_is_placed(allot: Allot) -> None:
    cluster = [devices("n1", "a"), devices("n2", "a", "b"), any_claim("x"), any_claim("y")]
    assert given(allot, *cluster, claiming_pod("p", "x", "y")) == {"x": ["n2/a"], "y": ["n2/b"]}
    ran = run(allot, devices("n1", "a"), any_claim("x"), any_claim("y"), claiming_pod("p", "x", "y"))
    assert ran.code == 1
    assert "Nothing was allocated." in ran.out


def test_pods_that_share_a_claim_follow_it(allot: Allot) -> None:
    objects = [devices("n1", "a"), devices("n2", "a", "b"), any_claim("shared"), any_claim("own", 2)]
    objects += [
        claiming_pod("p1", "shared"),
        claiming_pod("p2", "shared", templates=("t",)),
        any_template("t"),
    ]
    ran = run(allot, *objects)
    assert "pod default/p2: " in ran.out
    assert "n2: claim default/shared is allocated on another node" in ran.out
    assert ran.code == 1


def test_a_pod_with_only_allocated_claims_joins_them(allot: Allot) -> None:
    ran = run(allot, devices("n1", "a"), allocated("c", "n1", "a"), claiming_pod("p", "c"))
    assert ran.code == 0
    assert "pod default/p joins claim default/c on n1: d.example.com/n1/a" in ran.out


def test_a_claim_that_was_made_for_a_pod_is_not_made_again(allot: Allot) -> None:
    made = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "p-t-x7k2"}]}
    objects = [
        devices("n1", "a", "b"),
        any_template("t"),
        any_claim("p-t-x7k2"),
        claiming_pod("p", templates=("t",), status=made),
    ]
    assert given(allot, *objects) == {"p-t-x7k2": ["n1/a"]}


@pytest.mark.parametrize(
    ("wish", "refusal"),
    [
        ({"nodeName": "n2"}, "n1: the pod is on node n2"),
        ({"nodeSelector": {"zone": "b"}}, "n1: the pod's nodeSelector wants zone=b"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                            ]
                        }
                    }
                }
            },
            "n1: the pod's node affinity leaves the node out",
        ),
    ],
    ids=["nodeName", "nodeSelector", "affinity"],
)
def test_a_pod_is_kept_to_the_nodes_it_may_go_to(allot: Allot, wish: Json, refusal: str) -> None:
    objects = [
        labelled_node("n1", zone="a"),
        labelled_node("n2", zone="b"),
        devices("n1", "a"),
        devices("n2", "a"),
        any_claim("c"),
    ]
    assert given(allot, *objects, claiming_pod("p", "c", **wish)) == {"c": ["n2/a"]}
    assert refusal in run(allot, *objects, claiming_pod("p", "c", **wish), options=("--explain",)).out


def test_a_cordoned_node_takes_no_pods(allot: Allot) -> None:
    ran = run(
        allot, labelled_node("n1", cordoned=True), devices("n1", "a"), any_claim("c"), claiming_pod("p", "c")
    )
    assert "the node is cordoned" in ran.out
    assert ran.code == 1


def test_a_broken_affinity_is_a_reason_and_not_a_crash(allot: Allot) -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Near", "values": []}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    ran = run(
        allot,
        labelled_node("n1"),
        devices("n1", "a"),
        any_claim("c"),
        claiming_pod("p", "c", affinity=affinity),
    )
    assert "operator 'Near' is not one of" in ran.out
    assert ran.code == 1


@pytest.mark.parametrize(
    ("objects", "missing"),
    [
        ([claiming_pod("p", "gone")], "ResourceClaim default/gone"),
        ([claiming_pod("p", templates=("gone",))], "ResourceClaimTemplate default/gone"),
    ],
)
def test_references_to_nowhere_are_told(allot: Allot, objects: list[Json], missing: str) -> None:
    ran = run(allot, devices("n1", "a"), *objects)
    assert f"pod default/p: it refers to {missing}, which is not in the input" in ran.out
    assert ran.code == 1


def test_a_class_that_does_not_exist_is_told(allot: Allot) -> None:
    lost = any_claim("c")
    lost["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nope"
    assert "could not retrieve device class nope" in run(allot, devices("n1", "a"), lost).out


def test_finished_pods_and_pods_without_claims_are_left_alone(allot: Allot) -> None:
    done = claiming_pod("done", "c", status={"phase": "Succeeded"})
    ran = run(allot, devices("n1", "a"), claiming_pod("plain"), done)
    assert "note: pods that ask for no devices or have finished: 2" in ran.out
    assert ran.code == 0


def test_taint_rules_keep_devices_from_being_given(allot: Allot) -> None:
    rule: Json = {
        "apiVersion": V1,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"device": "a"},
            "taint": {"key": "example.com/bad", "effect": "NoSchedule"},
        },
    }
    ran = run(allot, devices("n1", "a", "b"), rule, any_claim("c"))
    assert "! a  + b" in ran.out


def test_other_kinds_are_counted_and_ignored(allot: Allot) -> None:
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    assert "note: ignored: 1 Service" in run(allot, other).out


def test_pools_that_cannot_be_used_are_shown_as_such(allot: Allot) -> None:
    half = devices("n1", "a", pool={"name": "n1", "generation": 1, "resourceSliceCount": 2})
    ran = run(allot, half, any_claim("c"))
    assert "incomplete: 1 of 2 slices" in ran.out
    assert ran.code == 1


def test_devices_that_several_nodes_reach_are_drawn_once(allot: Allot) -> None:
    net = devices("net", "a", "b", nodeName=None, allNodes=True)
    ran = run(allot, labelled_node("n1"), labelled_node("n2"), net, any_claim("c"))
    assert ran.out.count("+ a  . b") == 1
    assert "several nodes" in ran.out


def test_a_large_pool_is_drawn_in_bare_cells(allot: Allot) -> None:
    ran = run(allot, devices("n1", *(f"d{n}" for n in range(120))), any_claim("c", 2))
    assert "++" + "." * 98 in ran.out
    assert "118 of 120 free" in ran.out


def test_one_node_can_be_asked_about(allot: Allot) -> None:
    cluster = [devices("n1", "a"), devices("n2", "a"), any_claim("c")]
    assert given(allot, *cluster, options=("--node", "n2")) == {"c": ["n2/a"]}


def test_generated_names_do_not_collide(allot: Allot) -> None:
    nameless = [{**any_claim(""), "metadata": {"generateName": "g-"}} for _ in range(2)]
    text = "\n---\n".join(json.dumps(each) for each in [CLASS, devices("n1", "a", "b"), *nameless])
    ran = allot("allocate", "-f", "-", "-o", "json", stdin=text)
    assert ran.code == 0
    names = [item["metadata"]["name"] for item in json.loads(ran.out)["items"]]
    assert names == ["g-5", "g-7"]


def test_fields_that_we_do_not_know_stay_in_the_output(allot: Allot) -> None:
    newer = {**any_claim("c"), "spec": {**any_claim("x")["spec"], "newField": 1}}
    ran = run(allot, devices("n1", "a"), newer, options=("--lenient", "-o", "json"))
    (item,) = json.loads(ran.out)["items"]
    assert item["spec"]["newField"] == 1
    assert item["status"]["allocation"]["devices"]["results"][0]["device"] == "a"


def test_reservations_are_written_for_pods_that_have_a_uid(allot: Allot) -> None:
    running = claiming_pod("p", "c")
    running["metadata"]["uid"] = "u-1"
    ran = run(allot, devices("n1", "a"), any_claim("c"), running, options=("-o", "json"))
    (item,) = json.loads(ran.out)["items"]
    assert item["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u-1"}]


CARDS: list[Json] = [
    {
        "apiVersion": ALPHA,
        "kind": "NodeResourceSlice",
        "metadata": {"name": "cards"},
        "spec": {
            "nodeName": "n1",
            "driverName": "cards.example.com",
            "partitionable": {"resourceInstances": [{"name": "card-0"}]},
        },
    },
    {
        "apiVersion": ALPHA,
        "kind": "ResourceClass",
        "metadata": {"name": "cards"},
        "driverName": "cards.example.com",
        "semanticParameters": True,
    },
]


def card_claim(name: str) -> Json:
    spec = {"resourceClassName": "cards"}
    return {"apiVersion": ALPHA, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def test_a_pod_may_have_claims_of_both_models(allot: Allot) -> None:
    objects = [
        *CARDS,
        devices("n0", "a"),
        devices("n1", "a"),
        any_claim("new"),
        card_claim("early"),
        claiming_pod("p", "new", "early"),
    ]
    ran = run(allot, *objects)
    assert ran.code == 0
    assert "d.example.com/n1/a" in ran.out
    assert "cards.example.com/n1/card-0" in ran.out


def test_an_instance_is_given_once_and_its_holder_is_named(allot: Allot) -> None:
    ran = run(allot, *CARDS, card_claim("one"), card_claim("two"))
    assert ran.code == 1
    assert "in use (by default/one)" in ran.out


def test_a_claim_of_the_early_model_that_is_not_shareable_has_one_user(allot: Allot) -> None:
    parameters: Json = {
        "apiVersion": ALPHA,
        "kind": "ResourceClaimParameters",
        "metadata": {"name": "alone"},
        "shareable": False,
        "requests": [
            {"driverName": "cards.example.com", "partitionable": {"required": [{"selector": "true"}]}}
        ],
    }
    alone = card_claim("c")
    alone["spec"]["parametersRef"] = {
        "apiGroup": "resource.k8s.io",
        "kind": "ResourceClaimParameters",
        "name": "alone",
    }
    ran = run(allot, *CARDS, parameters, alone, claiming_pod("p1", "c"), claiming_pod("p2", "c"))
    assert "pod default/p2: claim default/c is not shareable and pod p1 uses it" in ran.out
    assert ran.code == 1
    ran = run(allot, *CARDS, card_claim("c"), claiming_pod("p1", "c"), claiming_pod("p2", "c"))
    assert ran.code == 0


def test_nodes_that_fail_alike_are_told_together(allot: Allot) -> None:
    objects = [devices(f"n{n}", "a") for n in range(7)] + [allocated(f"c{n}", f"n{n}", "a") for n in range(7)]
    ran = run(allot, *objects, any_claim("late"))
    assert "  n0, n1, n2, n3, n4 and 2 more: request r needs 1, 0 of 1 device fit" in ran.out
    assert "    1 in use (by default/c0; by default/c1; by default/c2 and 4 more)" in ran.out


def test_of_many_different_failures_the_closest_are_shown(allot: Allot) -> None:
    objects = [devices(f"n{n:02}", *(f"d{d}" for d in range(n))) for n in range(1, 15)]
    ran = run(allot, *objects, any_claim("huge", 30))
    assert "closest is n14: request r needs 30 and has 14" in ran.out
    assert "  ... and 4 nodes more; --explain shows all" in ran.out


def test_of_a_large_cluster_only_nodes_with_something_new_are_drawn(allot: Allot) -> None:
    ran = run(allot, *(devices(f"n{n:03}", "a") for n in range(100)), any_claim("c"))
    assert "  d.example.com/n000: 0 of 1 free" in ran.out
    assert "d.example.com/n001" not in ran.out
    assert "... and 99 more nodes: 99 of 99 devices free" in ran.out


# --- extended resources ---


def served_class(resource: str = "vendor.com/gpu") -> Json:
    return {**CLASS, "metadata": {"name": "served"}, "spec": {"extendedResourceName": resource}}


def asking(name: str, amount: int, resource: str = "vendor.com/gpu") -> Json:
    """A pod that asks for an extended resource."""
    asked = claiming_pod(name)
    asked["spec"]["containers"] = [{"name": "c", "image": "i", "resources": {"limits": {resource: amount}}}]
    return asked


def plugged(name: str, amount: int) -> Json:
    """A node whose device plugin offers the resource."""
    return {**labelled_node(name), "status": {"allocatable": {"vendor.com/gpu": str(amount)}}}


def test_extended_resources_are_served_by_a_claim_for_their_class(allot: Allot) -> None:
    found = given(allot, labelled_node("n"), devices("n", "a", "b", "c"), served_class(), asking("p", 2))
    assert len(found) == 1
    (claim_name,) = found
    assert claim_name.startswith("p-extended-resources-")
    assert len(found[claim_name]) == 2


def test_a_pod_whose_extended_resources_nobody_has_does_not_fit(allot: Allot) -> None:
    short = run(allot, labelled_node("n"), devices("n", "a"), served_class(), asking("p", 2))
    assert short.code == 1
    assert "pod default/p: " in short.out
    unknown = run(allot, labelled_node("n"), devices("n", "a"), asking("p", 1))
    assert unknown.code == 1
    assert "offers no vendor.com/gpu, and no DeviceClass has it as extendedResourceName" in unknown.out


def test_a_class_is_asked_for_by_its_own_name_too(allot: Allot) -> None:
    name = "deviceclass.resource.kubernetes.io/any"
    assert run(allot, labelled_node("n"), devices("n", "a"), asking("p", 1, name)).code == 0
    assert run(allot, labelled_node("n"), devices("n", "a"), asking("p", 2, name)).code == 1


def test_of_two_classes_for_one_resource_the_newer_serves_it_as_in_the_scheduler(allot: Allot) -> None:
    old, new = served_class(), served_class()
    old["metadata"] = {"name": "a-old", "creationTimestamp": "2026-01-01T00:00:00Z"}
    new["metadata"] = {"name": "b-new", "creationTimestamp": "2026-02-01T00:00:00Z"}
    ran = run(allot, node("n"), devices("n", "a"), old, new, asking("p", 1), options=("-o", "json"))
    (made,) = json.loads(ran.out)["items"]
    (request,) = made["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "b-new"


def test_a_device_plugin_serves_before_any_class_does(allot: Allot) -> None:
    """Nothing is claimed on its node; what pods there have is gone."""
    there = asking("there", 1)
    there["spec"]["nodeName"] = "n"
    objects = (plugged("n", 2), devices("n", "a", "b"), served_class(), there)
    assert given(allot, *objects, asking("p", 1)) == {}
    crowded = run(allot, *objects, asking("p", 1), asking("q", 1))
    assert crowded.code == 1
    assert "has 0 of 2 vendor.com/gpu left, and 1 are needed" in crowded.out


def test_extended_resources_and_claims_of_a_pod_go_to_one_node(allot: Allot) -> None:
    asked = asking("p", 1)
    asked["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimName": "c"}]
    nodes = (labelled_node("m"), devices("m", "a"), labelled_node("n"), devices("n", "b", "c"))
    found = given(allot, *nodes, served_class(), any_claim("c"), asked)
    assert sorted(device for held in found.values() for device in held) == ["n/b", "n/c"]


# --- owners of pods ---


def workload(kind: str, version: str, name: str, resource: str, **spec: Any) -> Json:
    pattern = asking("ignored", 1, resource)["spec"]
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": pattern}, **spec},
    }


@pytest.mark.parametrize(
    ("kind", "version", "spec", "pods"),
    [
        ("Deployment", "apps/v1", {"replicas": 3}, 3),
        ("ReplicaSet", "apps/v1", {}, 1),
        ("StatefulSet", "apps/v1", {"replicas": 2}, 2),
        ("Job", "batch/v1", {"parallelism": 3, "completions": 2}, 2),
        ("Job", "batch/v1", {"suspend": True}, 0),
        ("ReplicationController", "v1", {"replicas": 2}, 2),
        ("Deployment", "apps/v1", {"replicas": None}, 1),
    ],
)
def test_owners_of_pods_stand_for_their_pods(
    allot: Allot, kind: str, version: str, spec: Json, pods: int
) -> None:
    owner = workload(kind, version, "w", "vendor.com/gpu", **spec)
    enough = run(allot, labelled_node("n"), devices("n", *"abc"[:pods]), served_class(), owner)
    assert enough.code == 0
    if pods:
        short = run(allot, labelled_node("n"), devices("n", *"abc"[: pods - 1]), served_class(), owner)
        assert short.code == 1
        assert f"pod default/w-{pods - 1}: " in short.out


def test_pods_of_an_owner_that_are_there_are_not_made_again(allot: Allot) -> None:
    owner = workload("ReplicaSet", "apps/v1", "w", "vendor.com/gpu", replicas=2)
    mine = asking("w-x7k2p", 1)
    mine["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
    ]
    found = given(allot, labelled_node("n"), devices("n", "a", "b"), served_class(), owner, mine)
    assert len(found) == 2
    assert {name.split("-extended")[0] for name in found} == {"w-x7k2p", "w-0"}


def test_a_replica_set_of_a_deployment_that_is_there_counts_once(allot: Allot) -> None:
    deployment = workload("Deployment", "apps/v1", "w", "vendor.com/gpu", replicas=1)
    owned = workload("ReplicaSet", "apps/v1", "w-5d9f", "vendor.com/gpu", replicas=1)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "u", "controller": True}
    ]
    assert (
        len(given(allot, labelled_node("n"), devices("n", "a", "b"), served_class(), deployment, owned)) == 1
    )


def test_a_broken_template_of_a_workload_is_told_with_its_place(allot: Allot) -> None:
    ran = run(allot, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {}})
    assert ran.code == 2
    assert "spec.template: must have the spec of a pod" in ran.err


def test_an_unknown_field_of_a_template_is_refused_unless_one_is_lenient(allot: Allot) -> None:
    owner = workload("Deployment", "apps/v1", "w", "vendor.com/gpu")
    owner["spec"]["template"]["spec"]["newer"] = True
    objects = (labelled_node("n"), devices("n", "a"), served_class(), owner)
    assert "spec.template.spec.newer: unknown field" in run(allot, *objects).err
    assert run(allot, *objects, options=("--lenient",)).code == 0


def test_pods_of_owners_do_not_take_the_names_and_claims_of_others(allot: Allot) -> None:
    """Of a StatefulSet that has one pod, and of two workloads of one name."""
    owner = workload("StatefulSet", "apps/v1", "w", "vendor.com/gpu", replicas=2)
    there = asking("w-0", 1)
    there["metadata"]["ownerReferences"] = [controller("apps/v1", "StatefulSet", "w")]
    for objects in ((owner, there), (owner, workload("Job", "batch/v1", "w", "vendor.com/gpu"))):
        pods = len(objects) if there in objects else 3
        enough = run(allot, labelled_node("n"), devices("n", *"abc"[:pods]), served_class(), *objects)
        assert (enough.code, f"({pods} placed)" in enough.out) == (0, True)
        assert (
            run(allot, labelled_node("n"), devices("n", *"abc"[: pods - 1]), served_class(), *objects).code
            == 1
        )


def controller(version: str, kind: str, name: str) -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}


def test_a_replica_set_whose_deployment_is_not_given_counts(allot: Allot) -> None:
    owned = workload("ReplicaSet", "apps/v1", "w-5d9f", "vendor.com/gpu")
    owned["metadata"]["ownerReferences"] = [controller("apps/v1", "Deployment", "w")]
    assert run(allot, labelled_node("n"), devices("n"), served_class(), owned).code == 1


@pytest.mark.parametrize(
    ("status", "pods"),
    [
        ({"conditions": [{"type": "Complete", "status": "True"}]}, 0),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, 0),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, 3),
        ({"succeeded": 2}, 2),
    ],
)
def test_a_job_wants_pods_only_for_what_is_left_to_do(allot: Allot, status: Json, pods: int) -> None:
    job = workload("Job", "batch/v1", "j", "vendor.com/gpu", parallelism=3, completions=4)
    found = given(allot, labelled_node("n"), devices("n", *"abcd"), served_class(), {**job, "status": status})
    assert len(found) == pods


def test_a_cron_job_stands_for_its_next_run_unless_one_goes_on(allot: Allot) -> None:
    job = workload("Job", "batch/v1", "nightly-29", "vendor.com/gpu", parallelism=2)
    job["metadata"]["ownerReferences"] = [controller("batch/v1", "CronJob", "nightly")]
    cron = {**job, "kind": "CronJob", "metadata": {"name": "nightly"}}
    cron["spec"] = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job["spec"]}}
    fleet = (labelled_node("n"), devices("n", *"abcd"), served_class())
    assert sorted(name[:9] for name in given(allot, *fleet, cron)) == ["nightly-0", "nightly-1"]
    assert {name[:10] for name in given(allot, *fleet, cron, job)} == {"nightly-29"}
    ended = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert len(given(allot, *fleet, cron, ended)) == 2
    assert given(allot, *fleet, {**cron, "spec": {**cron["spec"], "suspend": True}}) == {}


def test_more_pods_than_anybody_has_are_refused_before_they_are_made(allot: Allot) -> None:
    ran = run(allot, workload("Deployment", "apps/v1", "w", "vendor.com/gpu", replicas=2**31 - 1))
    assert (ran.code, "have more than 20000 pods" in ran.err) == (2, True)


def daemons(**spec: Any) -> Json:
    made = workload("DaemonSet", "apps/v1", "agent", "vendor.com/gpu", updateStrategy={"type": "OnDelete"})
    made["spec"]["template"]["spec"].update(spec)
    return made


def tainted_node(name: str) -> Json:
    return {**labelled_node(name), "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}


def test_a_daemon_set_wants_a_pod_on_each_node_that_it_may_run_on(allot: Allot) -> None:
    """A cordoned one too. The others are no reason to refuse it."""
    fleet = [
        labelled_node("a", gpu="yes"),
        labelled_node("b", cordoned=True, gpu="yes"),
        labelled_node("c"),
        tainted_node("d"),
    ]
    served = [devices("a", "x"), devices("b", "x"), served_class()]
    chosen = daemons(nodeSelector={"gpu": "yes"})
    assert sorted(given(allot, *fleet, *served, chosen).values()) == [["a/x"], ["b/x"]]
    everywhere = run(allot, *fleet, *served, daemons())
    assert everywhere.code == 1
    assert "pod default/agent-c: " in everywhere.out
    assert "pod default/agent-d: " not in everywhere.out
    assert run(allot, *fleet, *served, daemons(), options=("--node", "a")).code == 0


def test_a_daemon_that_is_on_its_node_or_waits_for_it_is_not_made_again(allot: Allot) -> None:
    there, waiting = asking("agent-1", 1), asking("agent-2", 1)
    test = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    term = {"nodeSelectorTerms": [{"matchFields": [test]}]}
    there["spec"]["nodeName"] = "a"
    waiting["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    for each in (there, waiting):
        each["metadata"]["ownerReferences"] = [controller("apps/v1", "DaemonSet", "agent")]
    fleet = [labelled_node("a"), labelled_node("b"), devices("b", "x"), served_class()]
    assert list(given(allot, *fleet, there, waiting, daemons()).values()) == [["b/x"]]


# --- reasons that many nodes have in common ---


def test_nodes_with_the_same_error_are_told_together_without_the_names_of_one(allot: Allot) -> None:
    fleet = [each for name in "xyz" for each in (labelled_node(name), devices(name, f"{name}-0"))]
    everything = any_claim("c")
    everything["spec"]["devices"] = {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}],
        "constraints": [{"matchAttribute": "d.example.com/none"}],
    }
    ran = run(allot, *fleet, everything)
    assert "x, y, z: claim c, request r: cannot add a device because" in ran.out
    alone = run(allot, *fleet[:2], everything)
    assert "cannot add device d.example.com/x/x-0 because" in alone.out


def test_nodes_with_pools_that_are_incomplete_are_told_together_and_apart_from_others(allot: Allot) -> None:
    pools = [
        devices(name, "a", pool={"name": name, "generation": 1, "resourceSliceCount": 2}) for name in "xy"
    ]
    empty = [labelled_node(name) for name in "xyz"]
    every = any_claim("c")
    every["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "any", "allocationMode": "All"}
    ran = run(allot, *empty, *pools, every)
    assert (
        "x, y: claim default/c, request r: asks for all devices, but a resource pool is currently" in ran.out
    )
    few = run(allot, *empty, *pools, any_claim("c"))
    assert "x, y: request r needs 1" in few.out
    assert "x, y: pool of devices is incomplete (1 of 2 slices)" in few.out
    assert "z: request r needs 1" in few.out


def test_owners_of_pods_that_are_not_known_are_named(allot: Allot) -> None:
    """Who reads that nothing is in the way has to know which pods that leaves out."""
    task = {"replicas": 3, "template": {"spec": asking("ignored", 9)["spec"]}}
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}}
    jobs = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}}
    inner = {"template": {"spec": {"template": task["template"]}}}
    other = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "o"}, "spec": {"a": [1]}}
    ran = run(
        allot,
        {**volcano, "spec": {"tasks": [task]}},
        {**jobs, "spec": {"replicatedJobs": [inner, inner]}},
        other,
    )
    assert (
        "note: the pods of 1 Job of batch.volcano.sh/v1alpha1, 1 JobSet of jobset.x-k8s.io/v1alpha2 are not counted: "
        "give the pods themselves"
    ) in ran.out
    assert "not counted" not in run(allot, other).out


def test_notes_say_what_is_done_with_every_owner_of_pods(allot: Allot) -> None:
    """An owner whose pods are placed is not also said to be left out; and one that wants no pods is named as well."""
    owners = [
        workload("Deployment", "apps/v1", "w", "vendor.com/gpu", replicas=3),
        workload("Job", "batch/v1", "j", "vendor.com/gpu", parallelism=2),
        workload("Job", "batch/v1", "k", "vendor.com/gpu"),
        workload("Job", "batch/v1", "later", "vendor.com/gpu", suspend=True),
        workload("DaemonSet", "apps/v1", "d", "vendor.com/gpu", selector={"matchLabels": {"app": "d"}}),
        workload("Deployment", "extensions/v1beta1", "old", "vendor.com/gpu"),
    ]
    ran = run(allot, labelled_node("n"), devices("n", "a"), served_class(), *owners)
    notes = [line for line in ran.out.splitlines() if line.startswith("note: ")]
    assert notes == [
        "note: the pods of 1 Deployment of extensions/v1beta1 are not counted: give the pods themselves",
        "note: the pods that these owners still lack are included: 1 Deployment (3 pods), 2 Jobs (3 pods), "
        "1 DaemonSet (one pod on each node that it may use)",
        "note: no pods are added for 1 Job: suspended, finished, scaled to zero, or their pods are there already",
    ]
