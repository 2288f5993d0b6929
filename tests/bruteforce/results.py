"""Writes picks as the AllocationResults of ``resource.k8s.io/v1``."""

from typing import Any

from tests.bruteforce.pools import Json
from tests.bruteforce.quantity import written
from tests.bruteforce.search import Ask, Pick, Search

SHARE = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def results(search: Search, picks: list[Pick]) -> list[Json]:
    """One result a claim, in the order of the claims."""
    made = []
    for index, claim in enumerate(search.claims):
        mine = [pick for pick in picks if pick.ask.claim == index]
        asks = [search.chosen[index, number] for number in range(len(search.asks[index]))]
        devices: Json = {"results": [_device(search, pick) for pick in mine]} if mine else {}
        applying = configs(search.problem, claim, asks)
        if applying:
            devices["config"] = applying
        result: Json = {"devices": devices}
        selector = node_selector(
            [(p.candidate.slice, p.candidate.device) for p in mine], search.problem["node"]
        )
        if selector is not None:
            result["nodeSelector"] = selector
        made.append(result)
    return made


def _device(search: Search, pick: Pick) -> Json:
    driver, pool, device = pick.candidate.id
    result: Json = {"request": pick.ask.name, "driver": driver, "pool": pool, "device": device}
    if pick.ask.admin:
        result["adminAccess"] = True
    optional: dict[str, Any] = {
        "tolerations": _first_of_name(search, pick.ask).spec.get("tolerations"),
        "skipNodeOperations": pick.candidate.slice["spec"].get("skipNodeOperations"),
    }
    if "DeviceBindingAndStatus" in search.features:
        optional["bindingConditions"] = pick.candidate.device.get("bindingConditions")
        optional["bindingFailureConditions"] = pick.candidate.device.get("bindingFailureConditions")
    if pick.amounts is not None:
        optional["shareID"] = SHARE
        optional["consumedCapacity"] = {name: written(amount.value) for name, amount in pick.amounts.items()}
    return result | {name: value for name, value in optional.items() if value}


def _first_of_name(search: Search, ask: Ask) -> Ask:
    """Results find their request again by name; of subrequests of one name, that is the first."""
    return next(other for asks in search.asks[ask.claim] for other in asks if other.name == ask.name)


def configs(problem: Json, claim: Json, asks: list[Ask]) -> list[Json]:
    """Each class's configs once, for all requests of the class; then the claim's own that apply."""
    names_of_class: dict[str, list[str]] = {}
    for ask in asks:
        names_of_class.setdefault(ask.spec["deviceClassName"], []).append(ask.name)
    by_name = {c["metadata"]["name"]: c for c in problem["classes"]}
    applying = [
        {"source": "FromClass", "requests": names, **_parameters(config)}
        for class_name, names in names_of_class.items()
        for config in by_name[class_name]["spec"].get("config", [])
    ]
    for config in claim["spec"]["devices"].get("config", []):
        named = config.get("requests") or []
        if not named or any(ask.request in named or ask.name in named for ask in asks):
            applying.append({"source": "FromClaim", "requests": named, **_parameters(config)})
    for config in applying:
        if all(ask.request in config["requests"] or ask.name in config["requests"] for ask in asks):
            config["requests"] = []
        if not config["requests"]:
            del config["requests"]
    return applying


def _parameters(config: Json) -> Json:
    return {"opaque": config["opaque"]} if "opaque" in config else {}


class TooManyTerms(Exception):
    """A device's node selector has several terms, which a result cannot express."""


def node_selector(devices: list[tuple[Json, Json]], node: Json) -> Json | None:
    """Where a claim with these (slice, device) pairs can be used; None means everywhere."""
    union: dict[str, list[Json]] = {"matchFields": [], "matchExpressions": []}
    for slice_, device in devices:
        where = device if slice_["spec"].get("perDeviceNodeSelection") else slice_["spec"]
        if where.get("nodeName") is not None or device.get("bindsToNode"):
            name = {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        terms = (where.get("nodeSelector") or {}).get("nodeSelectorTerms", [])
        if len(terms) > 1:
            raise TooManyTerms
        for term in terms:
            for kind, requirements in union.items():
                for requirement in term.get(kind, []):
                    if all(_key(requirement) != _key(other) for other in requirements):
                        requirements.append(requirement)
    term = {kind: requirements for kind, requirements in union.items() if requirements}
    return {"nodeSelectorTerms": [term]} if term else None


def _key(requirement: Json) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values", []))
