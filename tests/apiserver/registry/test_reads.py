"""Pages and their tokens, and options that do not go together."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.status import BadRequest, Invalid
from allotment.apiserver.registry.reads import ListOptions, decode_token, encode_token, revision_of
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.selection import Selection

THINGS = Resource("", "v1", "Thing", "things", True)
NAMES = st.text(alphabet="abc-.", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))


@given(st.integers(min_value=1, max_value=2**62), NAMES, NAMES)
def test_a_token_comes_back_as_it_went(revision: int, namespace: str, name: str) -> None:
    for place in (name, f"{namespace}\0{name}"):
        assert decode_token(encode_token(revision, place)) == (revision, place)


def made(**fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("?", "continue key is not valid"),
        ("YQ", "continue key is not valid"),
        (made(v="meta.k8s.io/v2", rv=1, start="a"), "does not recognize this encoded version meta.k8s.io/v2"),
        (made(v="meta.k8s.io/v1", rv=0, start="a"), "incorrect encoded start resourceVersion"),
        (made(v="meta.k8s.io/v1", rv=-5, start="a"), "incorrect encoded start resourceVersion"),
        (made(v="meta.k8s.io/v1", rv=1, start=""), "encoded start key empty"),
        (made(v="meta.k8s.io/v1", rv=1, start="../secrets/a"), "continue key is not valid: ../secrets/a"),
        (made(v="meta.k8s.io/v1", rv="1", start="a"), "continue key is not valid"),
    ],
)
def test_tokens_that_are_none(token: str, told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_token(token)
    assert told in refused.value.message


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    try:
        decode_token(text)
    except BadRequest:
        return


@pytest.mark.parametrize(("text", "revision"), [("", 0), ("0", 0), ("12", 12)])
def test_revisions(text: str, revision: int) -> None:
    assert revision_of(text) == revision


@pytest.mark.parametrize("text", ["-1", "a", "1.0", "²", "9" * 30])
def test_what_is_no_revision(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid resource version"):
        revision_of(text)


EVERYTHING = Selection(THINGS)


@pytest.mark.parametrize(
    "options",
    [
        ListOptions(EVERYTHING, match="Exact"),
        ListOptions(EVERYTHING, match="Exact", resource_version="0"),
        ListOptions(EVERYTHING, match="Perhaps", resource_version="1"),
        ListOptions(EVERYTHING, match="Exact", resource_version="1", token="x"),
        ListOptions(EVERYTHING, initial_events=True),
        ListOptions(EVERYTHING, watch=True, initial_events=True),
        ListOptions(EVERYTHING, watch=True, match="NotOlderThan"),
        ListOptions(EVERYTHING, watch=True, initial_events=True, match="Exact"),
    ],
)
def test_options_that_do_not_go_together(options: ListOptions) -> None:
    with pytest.raises(Invalid):
        options.check()
