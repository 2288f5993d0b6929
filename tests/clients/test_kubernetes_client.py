"""The official Python client: create, read, list, patch, replace, watch, delete, dynamic kinds, server-side apply."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.builders.plain import claim
from tests.contract.embedded import Embedded

# Without its types: they are stubs of another version, and half of them.
kubernetes: Any = pytest.importorskip(
    "kubernetes", reason="the package kubernetes is missing: `make venv` installs it"
)
client, config, dynamic = kubernetes.client, kubernetes.config, import_module("kubernetes.dynamic")
watch = kubernetes.watch
ApiException = client.exceptions.ApiException
Core = Any


@pytest.fixture
def connection(embedded: Embedded) -> Iterator[Any]:
    made = config.new_client_from_config(str(embedded.kubeconfig))
    yield made
    made.close()


@pytest.fixture
def core(connection: Any) -> Core:
    return client.CoreV1Api(connection)


def body(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"x": "y"}), data=data)


def test_create_read_change_delete(core: Core, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, body("a", k="1"))
    assert made.metadata.uid
    assert core.read_namespaced_config_map("a", namespace).data == {"k": "1"}
    assert core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}}).data == {"k": "2"}
    made.data = {"k": "3"}
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("a", namespace, made)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    made.metadata.resource_version = None
    assert core.replace_namespaced_config_map("a", namespace, made).data == {"k": "3"}
    core.delete_namespaced_config_map("a", namespace)
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_config_map("a", namespace)
    assert gone.value.status == 404


def test_lists_in_pages(core: Core, namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_config_map(namespace, body(f"c{number}"))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token, label_selector="x=y")
        names += [each.metadata.name for each in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"c{number}" for number in range(5)]


def test_watch(core: Core, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, body("a"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "v"}})
    core.delete_namespaced_config_map("a", namespace)
    watcher = watch.Watch()
    seen = []
    for event in watcher.stream(
        core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            watcher.stop()
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_dynamic_kinds(connection: Any, namespace: str) -> None:
    claims = dynamic.DynamicClient(connection).resources.get(
        api_version="resource.k8s.io/v1", kind="ResourceClaim"
    )
    made = claims.create(body=claim("a"), namespace=namespace)
    assert made.spec.devices.requests[0].exactly.count == 1
    assert [each.metadata.name for each in claims.get(namespace=namespace).items] == ["a"]
    claims.patch(
        body={"metadata": {"labels": {"x": "y"}}},
        name="a",
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    assert claims.get(name="a", namespace=namespace).metadata.labels.x == "y"
    claims.delete(name="a", namespace=namespace)


def test_server_side_apply(connection: Any, namespace: str) -> None:
    configmaps = dynamic.DynamicClient(connection).resources.get(api_version="v1", kind="ConfigMap")

    def applied(value: str, manager: str, **more: Any) -> Any:
        sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}}
        return configmaps.server_side_apply(
            body=sent, name="a", namespace=namespace, field_manager=manager, **more
        )

    assert applied("1", "one").data.k == "1"
    with pytest.raises(dynamic.exceptions.ConflictError):
        applied("2", "two")
    assert applied("2", "two", force_conflicts=True).data.k == "2"


def test_typed_claims(connection: Any, namespace: str) -> None:
    api = client.ResourceV1Api(connection)
    api.create_namespaced_resource_claim(namespace, claim("a"))
    (found,) = api.list_namespaced_resource_claim(namespace).items
    assert found.spec.devices.requests[0].exactly.device_class_name == "gpu.example.com"


def test_bind_a_pod(core: Core, namespace: str) -> None:
    spec = client.V1PodSpec(containers=[client.V1Container(name="main", image="i")])
    core.create_namespaced_pod(namespace, client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=spec))
    target = client.V1Binding(
        metadata=client.V1ObjectMeta(name="p"), target=client.V1ObjectReference(kind="Node", name="n1")
    )
    core.create_namespaced_pod_binding("p", namespace, target, _preload_content=False)
    assert core.read_namespaced_pod("p", namespace).spec.node_name == "n1"
