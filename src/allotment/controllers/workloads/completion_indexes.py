"""The indexes of an Indexed job's pods, and the short form in which a job's status lists the completed ones: ``0-2,5``."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.api.core import Pod
from allotment.client.form import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
_VARIABLE = "JOB_COMPLETION_INDEX"
_DIGITS = 18  # no index has more digits


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() and len(text) < _DIGITS else None


def parsed(text: str, completions: int) -> set[int]:
    """The indexes in the list that are below the number of completions. Entries that are not in ascending order are ignored,
    so that a writer of statuses cannot make the same numbers be counted again and again."""
    found: set[int] = set()
    begin = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if all(each.isdecimal() and len(each) < _DIGITS for each in (first, last or first)):
            end = min(int(last or first) + 1, completions)
            found.update(range(max(int(first), begin), end))
            begin = max(begin, end)
    return found


def written(indexes: Iterable[int]) -> str:
    """Three or more consecutive numbers are written as a range, as upstream does."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def indexed(pod: Obj, job: str, index: int) -> Obj:
    """The pod for an index: the number is in an annotation, a label, the environment and the host name."""
    meta, spec = pod["metadata"], pod["spec"]
    mark = {INDEX: str(index)}
    return {
        **pod,
        "metadata": {
            **meta,
            "labels": {**meta.get("labels", {}), **mark},
            "annotations": {**meta.get("annotations", {}), **mark},
        },
        "spec": {
            **spec,
            "hostname": f"{job}-{index}",
            **{
                name: [_told(container) for container in spec[name]]
                for name in ("initContainers", "containers")
                if spec.get(name)
            },
        },
    }


def _told(container: Obj) -> Obj:
    known = container.get("env") or []
    if any(each.get("name") == _VARIABLE for each in known):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*known, {"name": _VARIABLE, "valueFrom": source}]}
