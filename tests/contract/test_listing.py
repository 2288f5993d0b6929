"""A list is a consistent snapshot: pages of one revision, selectors of labels and fields."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.builders.plain import claim, configmap, node, pod, resource_slice
from tests.contract.api import Api


def names(listed: Any) -> list[str]:
    return [
        item["metadata"]["name"] for item in listed["items"] if item["metadata"]["name"] != "kube-root-ca.crt"
    ]


@pytest.fixture
def five(api: Api, configmaps: str) -> str:
    """ConfigMaps c0 to c4, in a namespace with nothing else that has the label."""
    for number in (3, 1, 4, 0, 2):
        api.post(configmaps, configmap(f"c{number}", {"n": str(number), "all": "yes"})).must(201)
    return f"{configmaps}?labelSelector=all"


def test_items_come_sorted_by_name_without_their_kind(api: Api, five: str) -> None:
    listed = api.get(five).must()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listed) == ["c0", "c1", "c2", "c3", "c4"]
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])
    assert "continue" not in listed["metadata"]


def test_all_namespaces_at_once(api: Api, namespace: str, configmaps: str, fresh: str) -> None:
    api.post(configmaps, configmap("a", {"mark": fresh})).must(201)
    api.post("/api/v1/namespaces/default/configmaps", configmap(fresh, {"mark": fresh})).must(201)
    listed = api.get(f"/api/v1/configmaps?labelSelector=mark={fresh}").must()
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in listed["items"]] == sorted(
        [("default", fresh), (namespace, "a")]
    )


def test_pages_are_of_one_revision(api: Api, configmaps: str) -> None:
    for number in range(5):
        api.post(configmaps, configmap(f"c{number}")).must(201)
    first = api.get(f"{configmaps}?limit=2").must()
    assert names(first) == ["c0", "c1"]
    api.delete(f"{configmaps}/c2").must()
    api.post(configmaps, configmap("c3a")).must(201)
    found, page = names(first), first
    while token := page["metadata"].get("continue"):
        page = api.get(f"{configmaps}?limit=2&continue={quote(token)}").must()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        found += names(page)
    assert found == ["c0", "c1", "c2", "c3", "c4"]


def test_a_page_tells_how_many_remain(api: Api, namespace: str, claims: str) -> None:
    for number in range(5):
        api.post(claims, claim(f"c{number}")).must(201)
    first = api.get(f"{claims}?limit=2").must()
    assert first["metadata"]["remainingItemCount"] == 3
    last = api.get(f"{claims}?limit=3&continue={quote(first['metadata']['continue'])}").must()
    assert "remainingItemCount" not in last["metadata"]
    assert names(last) == ["c2", "c3", "c4"]


def test_with_a_selector_it_does_not(api: Api, five: str) -> None:
    page = api.get(f"{five}&limit=2").must()
    assert names(page) == ["c0", "c1"]
    assert "remainingItemCount" not in page["metadata"]
    rest = api.get(f"{five}&limit=500&continue={quote(page['metadata']['continue'])}").must()
    assert names(rest) == ["c2", "c3", "c4"]


def test_a_list_at_an_older_revision_is_what_was_there(api: Api, claims: str) -> None:
    api.post(claims, claim("a")).must(201)
    then = api.get(claims).must()["metadata"]["resourceVersion"]
    api.post(claims, claim("b")).must(201)
    listed = api.get(f"{claims}?resourceVersion={then}&resourceVersionMatch=Exact").must()
    assert names(listed) == ["a"]
    assert listed["metadata"]["resourceVersion"] == then


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("n=1", ["c1"]),
        ("n==1", ["c1"]),
        ("n!=1", ["c0", "c2", "c3", "c4"]),
        ("n in (1,3)", ["c1", "c3"]),
        ("n notin (1,3)", ["c0", "c2", "c4"]),
        ("n", ["c0", "c1", "c2", "c3", "c4"]),
        ("!n", []),
        ("n>2", ["c3", "c4"]),
        ("n<2", ["c0", "c1"]),
        ("all=yes,n in (0,1)", ["c0", "c1"]),
        ("absent notin (x)", ["c0", "c1", "c2", "c3", "c4"]),
        ("n in ()", []),
    ],
)
def test_label_selectors(api: Api, five: str, selector: str, expected: list[str]) -> None:
    assert names(api.get(f"{five},{quote(selector)}").must()) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=c1", ["c1"]),
        ("metadata.name==c1", ["c1"]),
        ("metadata.name!=c1", ["c0", "c2", "c3", "c4"]),
        ("metadata.name=c1,metadata.name=c2", []),
        ("metadata.namespace!=elsewhere", ["c0", "c1", "c2", "c3", "c4"]),
    ],
)
def test_field_selectors(api: Api, five: str, selector: str, expected: list[str]) -> None:
    assert names(api.get(f"{five}&fieldSelector={quote(selector)}").must()) == expected


def test_fields_of_pods(api: Api, pods: str) -> None:
    api.post(pods, pod("bound", nodeName="n1", serviceAccountName="default")).must(201)
    api.post(pods, pod("free", restartPolicy="Never", schedulerName="mine")).must(201)
    for selector, expected in {
        "spec.nodeName=n1": ["bound"],
        "spec.nodeName=": ["free"],
        "status.phase=Pending": ["bound", "free"],
        "status.phase!=Pending": [],
        "spec.restartPolicy=Never": ["free"],
        "spec.schedulerName=mine": ["free"],
        "spec.serviceAccountName=default": ["bound", "free"],
        "spec.hostNetwork=false": ["bound", "free"],
        "status.podIP=": ["bound", "free"],
        "status.nominatedNodeName=": ["bound", "free"],
    }.items():
        assert names(api.get(f"{pods}?fieldSelector={selector}").must()) == expected, selector


def test_fields_of_slices(api: Api, fresh: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    api.post(slices, resource_slice(f"{fresh}-a", fresh)).must(201)
    api.post(slices, resource_slice(f"{fresh}-b", "", driver=f"{fresh}.example.com")).must(201)
    assert names(api.get(f"{slices}?fieldSelector=spec.nodeName={fresh}").must()) == [f"{fresh}-a"]
    assert names(api.get(f"{slices}?fieldSelector=spec.driver={fresh}.example.com").must()) == [f"{fresh}-b"]


def test_fields_of_nodes(api: Api, fresh: str) -> None:
    api.post("/api/v1/nodes", node(fresh)).must(201)
    fields = f"metadata.name={fresh},spec.unschedulable=false"
    assert names(api.get(f"/api/v1/nodes?fieldSelector={fields}").must()) == [fresh]


REFUSED = {
    "a label selector that does not parse": (
        "labelSelector=" + quote("a in"),
        400,
        "BadRequest",
        "unable to parse requirement: found '' expected: '('",
    ),
    "a label selector with a bad key": (
        "labelSelector=" + quote("-a=b"),
        400,
        "BadRequest",
        "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    "a field selector without an operator": (
        "fieldSelector=abc",
        400,
        "BadRequest",
        "invalid selector: 'abc'; can't understand 'abc'",
    ),
    "a field that cannot be selected": (
        "fieldSelector=data.k=v",
        400,
        "BadRequest",
        '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    "a limit that is no number": (
        "limit=x",
        400,
        "BadRequest",
        'strconv.ParseInt: parsing "x": invalid syntax',
    ),
    "a match without a revision": (
        "resourceVersionMatch=Exact",
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
    ),
    "an unknown match": (
        "resourceVersion=5&resourceVersionMatch=Perhaps",
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Perhaps": supported values: "Exact", "NotOlderThan", ""',
    ),
    "exactly revision 0": (
        "resourceVersion=0&resourceVersionMatch=Exact",
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
    ),
    "initial events without a watch": (
        "sendInitialEvents=true",
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
    ),
    "a timeout that is no number": (
        "timeoutSeconds=soon",
        400,
        "BadRequest",
        'strconv.ParseInt: parsing "soon": invalid syntax',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(api: Api, configmaps: str, case: str) -> None:
    query, status, reason, message = REFUSED[case]
    reply = api.get(f"{configmaps}?{query}")
    assert (reply.status, reply.reason, reply.message) == (status, reason, message)


def test_a_continue_token_that_is_none_is_refused(api: Api, configmaps: str) -> None:
    reply = api.get(f"{configmaps}?limit=1&continue=abc")
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith("invalid continue token: continue key is not valid: ")
