"""lightkube, typed and async-capable: create, read, list, patch, watch, server-side apply."""

from __future__ import annotations

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import PatchType

from tests.contract.embedded import Embedded


@pytest.fixture
def lightkube(embedded: Embedded, namespace: str) -> Client:
    return Client(
        config=KubeConfig.from_file(embedded.kubeconfig), namespace=namespace, field_manager="tests"
    )


def configmap(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"x": "y"}), data=data)


def test_create_read_change_delete(lightkube: Client) -> None:
    made = lightkube.create(configmap("a", k="1"))
    assert made.metadata is not None
    assert made.metadata.uid
    assert lightkube.get(ConfigMap, "a").data == {"k": "1"}
    assert lightkube.patch(ConfigMap, "a", {"data": {"k": "2"}}).data == {"k": "2"}
    patch = [{"op": "replace", "path": "/data/k", "value": "3"}]
    assert lightkube.patch(ConfigMap, "a", patch, patch_type=PatchType.JSON).data == {"k": "3"}
    made.data = {"k": "4"}
    with pytest.raises(ApiError) as stale:
        lightkube.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    lightkube.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as gone:
        lightkube.get(ConfigMap, "a")
    assert gone.value.status.code == 404


def test_lists(lightkube: Client) -> None:
    for number in range(5):
        lightkube.create(configmap(f"c{number}"))
    listed = list(lightkube.list(ConfigMap, labels={"x": "y"}, chunk_size=2))
    names = [each.metadata.name for each in listed if each.metadata is not None]
    assert names == [f"c{number}" for number in range(5)]


def test_watch(lightkube: Client) -> None:
    lightkube.create(configmap("a"))
    seen = []
    for operation, obj in lightkube.watch(ConfigMap, labels={"x": "y"}, server_timeout=20):
        assert obj.metadata is not None
        seen.append((operation, obj.metadata.name))
        if len(seen) == 1:
            lightkube.patch(ConfigMap, "a", {"data": {"k": "v"}})
            lightkube.delete(ConfigMap, "a")
        if len(seen) == 3:
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_server_side_apply(lightkube: Client) -> None:
    sent = ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="a"), data={"k": "1"})
    assert lightkube.apply(sent).data == {"k": "1"}
    sent.data = {"k": "2"}
    with pytest.raises(ApiError) as conflict:
        lightkube.apply(sent, field_manager="other")
    assert conflict.value.status.code == 409
    assert lightkube.apply(sent, field_manager="other", force=True).data == {"k": "2"}


def test_kinds_of_the_cluster_and_pods(lightkube: Client, fresh: str) -> None:
    lightkube.create(Node(metadata=ObjectMeta(name=fresh)))
    assert lightkube.get(Node, fresh).metadata is not None
    spec = PodSpec(containers=[Container(name="main", image="i")], nodeName=fresh)
    lightkube.create(Pod(metadata=ObjectMeta(name="p"), spec=spec))
    found = list(lightkube.list(Pod, fields={"spec.nodeName": fresh}))
    assert len(found) == 1
