"""Who sent it: certificates, token files, service accounts' tokens good and bad."""

from __future__ import annotations

import base64
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from allotment.api.status import BadRequest, Conflict, Invalid, NotFound, Unauthorized
from allotment.apiserver.auth.authentication import Authentication
from allotment.apiserver.auth.certificates import Authority
from allotment.apiserver.auth.identity import ANONYMOUS, Identity
from allotment.apiserver.auth.jwt import SigningKey, TokenRefused
from allotment.apiserver.auth.service_account import ISSUER, ServiceAccountTokens
from allotment.apiserver.auth.token_file import TokenFileError, read_token_file
from allotment.apiserver.store.record import Key, Obj
from tests.apiserver.auth.memory import MemoryStore

START = 1_800_000_000.0


def new_key(rsa_key: bool = False) -> SigningKey:
    key: Any = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
    return SigningKey(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


class Scene:
    """A service account ``team/bot``, a pod ``p`` of it on node ``n1``, and a clock to set."""

    def __init__(self, key: SigningKey | None = None) -> None:
        self.now = START
        self.key = key or new_key()
        self.store = MemoryStore()
        self.store.add("serviceaccounts", "bot", "team")
        self.store.add("nodes", "n1")
        self.store.add("pods", "p", "team", spec={"serviceAccountName": "bot", "nodeName": "n1"})
        self.store.add("secrets", "s", "team")
        self.accounts = ServiceAccountTokens(self.key, self.store)
        self.authentication = Authentication(self.accounts, lambda: self.now)

    def issue(self, **spec: Any) -> str:
        reply = self.accounts.issue("team", "bot", "uid-of-bot", {"spec": spec}, self.now)
        token: str = reply["status"]["token"]
        return token

    def identify(self, token: str) -> Identity:
        return self.authentication.identify([(b"authorization", f"Bearer {token}".encode("latin-1"))], None)

    def claims(self, **changes: Any) -> Obj:
        """What ``issue`` would sign, with changes."""
        part = self.issue().split(".")[1]
        claims: Obj = msgspec.json.decode(base64.urlsafe_b64decode(part + "=="))
        return {**claims, **changes}


def test_nothing_is_nobody() -> None:
    assert Scene().authentication.identify([(b"accept", b"*/*")], None) is ANONYMOUS


@pytest.mark.parametrize("value", [b"Basic YTpi", b"Bearer", b"Bearer ", b"Bearer  x", b""])
def test_what_is_no_bearer_token_is_nobody(value: bytes) -> None:
    assert Scene().authentication.identify([(b"authorization", value)], None) is ANONYMOUS


# --- certificates


def test_a_certificate_gives_user_and_groups() -> None:
    scene, now = Scene(), datetime.datetime.fromtimestamp(START, datetime.UTC)
    credential = Authority.new(now).issue_client("anna", ["devs", "ops"], now)
    der = ssl.PEM_cert_to_DER_cert(credential.certificate.decode())
    identity = scene.authentication.identify([(b"authorization", b"Bearer nonsense")], der)
    assert identity.name == "anna"
    assert identity.groups == ("devs", "ops", "system:authenticated")
    assert identity.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert scene.authentication.identify([], der) is identity  # worked out once


def test_a_certificate_that_ends_during_a_connection_counts_no_more() -> None:
    scene, now = Scene(), datetime.datetime.fromtimestamp(START, datetime.UTC)
    credential = Authority.new(now).issue_client("anna", [], now)
    der = ssl.PEM_cert_to_DER_cert(credential.certificate.decode())
    assert scene.authentication.identify([], der).name == "anna"
    scene.now += 366 * 86400
    assert scene.authentication.identify([], der) is ANONYMOUS


def test_bytes_that_are_no_certificate_are_nobody() -> None:
    assert Scene().authentication.identify([], b"garbage") is ANONYMOUS


# --- the token file


def test_a_token_file_names_users_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret1,anna,u1,"devs,ops"\n\nsecret2,bert,u2\n')
    scene = Scene()
    authentication = Authentication(scene.accounts, lambda: scene.now, read_token_file(file))
    identity = authentication.identify([(b"authorization", b"bearer secret1")], None)
    assert identity == Identity("anna", ("devs", "ops", "system:authenticated"), "u1")
    assert authentication.identify([(b"authorization", b"Bearer secret2")], None).name == "bert"
    with pytest.raises(Unauthorized, match="Unauthorized"):
        authentication.identify([(b"authorization", b"Bearer secret3")], None)


@pytest.mark.parametrize(
    ("line", "told"),
    [("a,b", "line 1: needs a token"), (",b,c", "the token is empty"), ("a,,c", "the user name is empty")],
)
def test_a_token_file_with_a_broken_line_is_refused(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(line)
    with pytest.raises(TokenFileError, match=told):
        read_token_file(file)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match=r"none\.csv"):
        read_token_file(tmp_path / "none.csv")


# --- service accounts


@pytest.mark.parametrize("rsa_key", [False, True], ids=["ES256", "RS256"])
def test_a_service_account_is_known_by_its_token(rsa_key: bool) -> None:
    scene = Scene(new_key(rsa_key))
    token = scene.issue()
    identity = scene.identify(token)
    assert identity.name == "system:serviceaccount:team:bot"
    assert identity.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    )
    assert identity.uid == "uid-of-bot"
    assert scene.identify(token) is identity  # worked out once


def test_a_token_bound_to_a_pod_tells_pod_and_node() -> None:
    scene = Scene()
    token = scene.issue(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-p"})
    extra = scene.identify(token).extra
    assert extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert extra["authentication.kubernetes.io/pod-uid"] == ("uid-of-p",)
    assert extra["authentication.kubernetes.io/node-name"] == ("n1",)
    assert extra["authentication.kubernetes.io/node-uid"] == ("uid-of-n1",)
    assert extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


def test_the_reply_tells_when_the_token_ends() -> None:
    scene = Scene()
    reply = scene.accounts.issue("team", "bot", "u", {"spec": {"expirationSeconds": 600}}, START)
    assert reply["status"]["expirationTimestamp"] == "2027-01-15T08:10:00Z"
    assert reply["spec"]["audiences"] == [ISSUER]


def test_a_token_ends() -> None:
    scene = Scene()
    token = scene.issue(expirationSeconds=600)
    scene.now += 600
    assert scene.identify(token).name
    scene.now += 61
    with pytest.raises(Unauthorized):
        scene.identify(token)


def _remade(scene: Scene, resource: str, name: str, namespace: str = "team") -> None:
    scene.store.add(
        resource, name, namespace, metadata={"uid": "another"}, spec={"serviceAccountName": "bot"}
    )


BOUND = {
    kind: {"apiVersion": "v1", "kind": kind, "name": name}
    for kind, name in (("Pod", "p"), ("Secret", "s"), ("Node", "n1"))
}
GONE: list[tuple[str, Obj | None, Callable[[Scene], object]]] = [
    ("the account is deleted", None, lambda scene: scene.store.delete(Key("serviceaccounts", "team", "bot"))),
    ("the account is another one", None, lambda scene: _remade(scene, "serviceaccounts", "bot")),
    ("the pod is deleted", BOUND["Pod"], lambda scene: scene.store.delete(Key("pods", "team", "p"))),
    ("the pod is another one", BOUND["Pod"], lambda scene: _remade(scene, "pods", "p")),
    ("the secret is deleted", BOUND["Secret"], lambda scene: scene.store.delete(Key("secrets", "team", "s"))),
    ("the node is deleted", BOUND["Node"], lambda scene: scene.store.delete(Key("nodes", "", "n1"))),
    ("the node is another one", BOUND["Node"], lambda scene: _remade(scene, "nodes", "n1", "")),
    (
        "the pod was deleted a while ago and lingers",
        BOUND["Pod"],
        lambda scene: (
            scene.store.add("pods", "p", "team", metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"})
            and None
        ),
    ),
]


@pytest.mark.parametrize(("told", "reference", "happens"), GONE, ids=[row[0] for row in GONE])
def test_a_token_is_void_when(told: str, reference: Obj | None, happens: Callable[[Scene], object]) -> None:
    scene = Scene()
    token = scene.issue(boundObjectRef=reference)
    assert scene.identify(token).name == "system:serviceaccount:team:bot"
    happens(scene)
    with pytest.raises(Unauthorized):
        scene.identify(token)


def test_a_token_survives_changes_of_its_account() -> None:
    scene = Scene()
    token = scene.issue()
    scene.store.add("serviceaccounts", "bot", "team", secrets=[])
    assert scene.identify(token).name


def test_a_pod_bound_token_does_not_depend_on_the_node() -> None:
    scene = Scene()
    token = scene.issue(boundObjectRef=BOUND["Pod"])
    scene.store.delete(Key("nodes", "", "n1"))
    assert scene.identify(token).name


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def _unsigned(scene: Scene, header: Obj) -> str:
    return f"{_encoded(header)}.{_encoded(scene.claims())}."


def _hmac_with_the_public_key(scene: Scene) -> str:
    import hashlib
    import hmac

    pem = scene.key._key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = f"{_encoded({'alg': 'HS256'})}.{_encoded(scene.claims())}"
    signature = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _other_claims(scene: Scene) -> str:
    """The signature of one token under the claims of another."""
    header, _, signature = scene.issue().split(".")
    return f"{header}.{_encoded(scene.claims(sub='system:serviceaccount:kube-system:root'))}.{signature}"


FORGED: dict[str, Callable[[Scene], str]] = {
    "signed by another key": lambda scene: new_key().sign(scene.claims()),
    "alg none": lambda scene: _unsigned(scene, {"alg": "none"}),
    "alg None": lambda scene: _unsigned(scene, {"alg": "None"}),
    "no alg": lambda scene: _unsigned(scene, {}),
    "alg of ours without signature": lambda scene: _unsigned(scene, {"alg": "ES256"}),
    "HS256 with the public key": _hmac_with_the_public_key,
    "claims exchanged": _other_claims,
    "signature of zeros": lambda scene: scene.issue().rpartition(".")[0] + "." + "A" * 86,
    "signature cut": lambda scene: scene.issue()[:-4],
    "of another issuer": lambda scene: scene.key.sign(scene.claims(iss="https://evil.example.com")),
    "for another audience": lambda scene: scene.issue(audiences=["vault"]),
    "for no audience": lambda scene: scene.key.sign(scene.claims(aud=[])),
    "subject is another than the account": lambda scene: scene.key.sign(
        scene.claims(sub="system:serviceaccount:kube-system:root")
    ),
    "without an end": lambda scene: scene.key.sign(scene.claims(exp=None)),
    "with an end that is no number": lambda scene: scene.key.sign(scene.claims(exp="never")),
    "not yet begun": lambda scene: scene.key.sign(scene.claims(nbf=START + 3600)),
    "without an account": lambda scene: scene.key.sign(scene.claims(**{"kubernetes.io": None})),
    "with a strange account": lambda scene: scene.key.sign(
        scene.claims(**{"kubernetes.io": {"serviceaccount": 3}})
    ),
    "claims that are a list": lambda scene: scene.key.sign([]),  # type: ignore[arg-type]  # on purpose
    "not base64": lambda scene: "a.b.c",
    "not JSON": lambda scene: "AAAA.AAAA.AAAA",
    "dots only": lambda scene: "..",
    "too many parts": lambda scene: scene.issue() + ".x",
    "deep JSON": lambda scene: "e30." + base64.urlsafe_b64encode(b"[" * 9000).decode().rstrip("=") + ".AAAA",
    "huge": lambda scene: "a." + "b" * 1_000_000 + ".c",
    "not even ASCII": lambda scene: "\xff\xfe.\xff.\xff",
    "a name": lambda scene: "admin",
}


@pytest.mark.parametrize("told", FORGED)
def test_a_token_is_refused_that_is(told: str) -> None:
    scene = Scene()
    token = FORGED[told](scene)
    for _ in range(2):  # what is remembered of the first time must not help
        with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
            scene.identify(token)


def test_a_token_for_others_can_be_reviewed_by_them() -> None:
    scene = Scene()
    token = scene.issue(audiences=["vault", "other"])
    identity, audiences = scene.authentication.of_token(token, ["vault"])
    assert identity.name == "system:serviceaccount:team:bot"
    assert audiences == ("vault",)
    with pytest.raises(TokenRefused, match="token audiences"):
        scene.authentication.of_token(token)


def test_what_is_remembered_stays_bounded() -> None:
    scene = Scene()
    for _ in range(4200):
        scene.authentication._verified[b"%d" % len(scene.authentication._verified)] = None  # type: ignore[assignment]  # fillers
    scene.identify(scene.issue())
    assert len(scene.authentication._verified) == 1


REFUSED_REQUESTS: list[tuple[Obj, type[Exception], str]] = [
    ({"expirationSeconds": 599}, Invalid, "may not specify a duration less than 10 minutes"),
    ({"expirationSeconds": (1 << 32) + 1}, Invalid, r"larger than 2\^32 seconds"),
    ({"expirationSeconds": "x"}, Invalid, "10 minutes"),
    ({"audiences": [3]}, Invalid, "audiences"),
    (
        {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "nope"}},
        NotFound,
        'pods "nope" not found',
    ),
    (
        {"boundObjectRef": {**BOUND["Pod"], "uid": "x"}},
        Conflict,
        r"the UID in the bound object reference \(x\)",
    ),
    (
        {"boundObjectRef": {"apiVersion": "v1", "kind": "Service", "name": "x"}},
        BadRequest,
        "cannot bind token to object",
    ),
]


@pytest.mark.parametrize(("spec", "error", "told"), REFUSED_REQUESTS)
def test_a_request_for_a_token_is_refused(spec: Obj, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        Scene().issue(**spec)


@pytest.mark.parametrize(
    ("metadata", "error", "told"),
    [
        ({"name": "other"}, Invalid, "must match the service account name if specified"),
        ({"namespace": "other"}, Invalid, "must match the service account namespace if specified"),
        (
            {"uid": "x"},
            Conflict,
            r"the UID in the token request \(x\) does not match the UID of the service account",
        ),
    ],
)
def test_a_request_that_names_another_account_is_refused(
    metadata: Obj, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Scene().accounts.issue("team", "bot", "uid-of-bot", {"metadata": metadata}, START)


def test_a_token_cannot_be_bound_to_a_pod_of_another_account() -> None:
    scene = Scene()
    scene.store.add("pods", "q", "team", spec={"serviceAccountName": "other"})
    with pytest.raises(BadRequest, match='serviceaccount "bot" to pod running with different'):
        scene.issue(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "q"})


def test_a_key_that_cannot_sign_as_we_do_is_refused() -> None:
    pem = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ValueError, match="P-256"):
        SigningKey(pem)
