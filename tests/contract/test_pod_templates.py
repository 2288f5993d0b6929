"""Pod templates by themselves: stored with the defaults of a pod, and checked as one."""

from __future__ import annotations

import pytest

from tests.builders.plain import Obj, pod
from tests.contract.api import Api


@pytest.fixture
def templates(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"


def pod_template(name: str, /, labels: dict[str, str] | None = None) -> Obj:
    described = {"metadata": {"labels": labels or {"app": "web"}}, "spec": pod("x")["spec"]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": described}


def test_one_is_completed_and_counted(api: Api, templates: str) -> None:
    made = api.post(templates, pod_template("a")).must(201)
    assert made["metadata"]["generation"] == 1
    assert made["template"]["spec"]["restartPolicy"] == "Always"
    assert made["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    changed = api.patch(f"{templates}/a", {"template": {"metadata": {"labels": {"x": "y"}}}}).must()
    assert changed["metadata"]["generation"] == 2
    labelled = api.patch(f"{templates}/a", {"metadata": {"labels": {"x": "y"}}}).must()
    assert labelled["metadata"]["generation"] == 2
    assert api.delete(f"{templates}/a").must()["kind"] == "PodTemplate"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param(
            {"template": {"spec": {"containers": []}}}, "template.spec.containers", id="no containers"
        ),
        pytest.param({"template": {"metadata": {"labels": {"-": "x"}}}}, "template.labels", id="a bad label"),
    ],
)
def test_what_is_no_pod_is_refused(api: Api, templates: str, change: Obj, field: str) -> None:
    api.post(templates, pod_template("a")).must(201)
    reply = api.patch(f"{templates}/a", change)
    assert reply.status == 422
    assert [cause["field"] for cause in reply.causes] == [field]


def test_its_table(api: Api, templates: str) -> None:
    api.post(templates, pod_template("a")).must(201)
    table = api.get(templates, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).must()
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Containers", 0),
        ("Images", 0),
        ("Pod Labels", 0),
    ]
    assert table["rows"][0]["cells"] == ["a", "main", "example.com/main:1", "app=web"]
