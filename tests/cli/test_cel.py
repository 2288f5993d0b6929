"""What `allot cel` shows of devices."""

import json

import yaml

from tests.command_line import Allot

MODEL = 'device.attributes["d.example.com"].model == "a"'


def slice_of(name: str, generation: int, *models: str | None) -> str:
    devices = [
        {"name": f"{name}-{n}", "attributes": {"model": {"string": model}} if model else {}}
        for n, model in enumerate(models)
    ]
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": devices}
    return json.dumps(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def test_devices_match_fail_or_err_with_what_was_read(allot: Allot) -> None:
    ran = allot("cel", MODEL, "-f", "-", stdin=slice_of("s", 1, "a", "b", None))
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "1 of 3 devices match",
        "",
        "MATCH  DEVICE               READ",
        "yes    d.example.com/p/s-0  model=a",
        "no     d.example.com/p/s-1  model=b",
        "error  d.example.com/p/s-2  model=(none); CEL runtime error: no such key: model",
    ]


def test_no_match_is_exit_code_one(allot: Allot) -> None:
    assert allot("cel", "false", "-f", "-", stdin=slice_of("s", 1, "a")).code == 1


def test_no_devices_is_no_match(allot: Allot) -> None:
    ran = allot("cel", "true", "-f", "examples/1-nodes.yaml")
    assert ran.out == "0 of 0 devices match\n"
    assert ran.code == 1


def test_an_expression_that_does_not_compile_has_a_caret(allot: Allot) -> None:
    ran = allot("cel", "device.driver ==", "-f", "-", stdin=slice_of("s", 1, "a"))
    assert ran.code == 2
    assert "line 1, column" in ran.err
    assert " | device.driver ==\n | ................^" in ran.err


def test_only_the_newest_generation_of_a_pool_is_there(allot: Allot) -> None:
    both = slice_of("old", 1, "a") + "\n---\n" + slice_of("new", 2, "a")
    ran = allot("cel", "true", "-f", "-", "-o", "json", stdin=both)
    assert [device["device"] for device in json.loads(ran.out)["devices"]] == ["d.example.com/p/new-0"]


def test_yaml_and_json_say_the_same(allot: Allot) -> None:
    text = slice_of("s", 1, "a", None)
    as_yaml = yaml.safe_load(allot("cel", MODEL, "-f", "-", "-o", "yaml", stdin=text).out)
    as_json = json.loads(allot("cel", MODEL, "-f", "-", "-o", "json", stdin=text).out)
    assert as_yaml == as_json
    assert as_json["devices"][0] == {"device": "d.example.com/p/s-0", "match": True, "read": "model=a"}
    assert "no such key" in as_json["devices"][1]["error"]


def test_an_instance_that_lacks_a_key_is_no_match(allot: Allot) -> None:
    ran = allot("cel", 'quantities["speed"] >= "1"', "-f", "examples/semantic")
    assert "lacks quantities.speed" in ran.out
    assert ran.code == 1
