"""Jobs and cron jobs: pods that run to their end. As with deployments, a controller makes their pods."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem
from allotment.api.text import byte_length
from allotment.apiserver.registry.age import AGE, between, since, told
from allotment.apiserver.registry.columns import of_template, selector, text
from allotment.apiserver.registry.job_status import check_job_status
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import StrategyRules, at
from allotment.apiserver.registry.strategy import Write
from allotment.apiserver.registry.templated import SPEC, check_counts, check_template, complete
from allotment.apiserver.store.record import Obj

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_MODES = ("Indexed", "NonIndexed")
_RESTART = ("Never", "OnFailure")
_MAX_INT32 = 2**31 - 1


class _JobRules(StrategyRules):
    """Adds the labels by which a job knows its pods, unless the user chose to select them."""

    def prepare_create(self, obj: Obj, write: Write) -> None:
        super().prepare_create(obj, write)
        metadata, spec = obj["metadata"], obj["spec"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        follows = (metadata.get("labels") or {}) == labels  # the job has no labels but the template's
        for name in _NAME_LABELS:
            labels.setdefault(name, metadata.get("name") or "")
        for name in _UID_LABELS:
            labels.setdefault(name, metadata["uid"])
        wanted = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        wanted.setdefault(_UID_LABELS[1], metadata["uid"])
        if follows:
            metadata["labels"] = dict(labels)


def _complete(job: Obj) -> None:
    spec = job["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    retries = _MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6
    complete(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": retries,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
        },
    )
    labels = at(spec, "template", "metadata", "labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _check_spec(spec: Obj, path: FieldPath) -> Iterator[FieldError]:
    yield from check_counts(spec, *_COUNTS, path=path)
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in _MODES:
        yield path.child("completionMode").not_supported(mode, _MODES)
    elif mode == "Indexed":
        if spec.get("completions") is None:
            yield path.child("completions").required("when completion mode is Indexed")
        if (spec.get("parallelism") or 0) > 100_000:
            yield path.child("parallelism").invalid(
                "must be less than or equal to 100000 when completion mode is Indexed", spec["parallelism"]
            )
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec.get(name) is not None:
                yield path.child(name).invalid("requires indexed completion mode", spec[name])


def _check(job: Obj) -> Iterator[FieldError]:
    spec = job["spec"]
    yield from _check_spec(spec, SPEC)
    for error in check_template(spec, "job", _RESTART):
        if str(error.path) == "spec.template.spec.restartPolicy":
            error = _unset_restart(spec["template"], error)
        yield error
    name = job["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and spec.get("completions"):
        last = f"{name}-{spec['completions'] - 1}"
        if problem := dns_label_problem(last):
            yield FieldPath("metadata", "name").invalid(
                f"will not able to create pod with invalid DNS label: {problem}", name
            )


def _unset_restart(template: Obj, error: FieldError) -> FieldError:
    """The default, Always, stands for a policy that the user left out."""
    if at(template, "spec", "restartPolicy") == "Always":
        return error.path.required('valid values: "OnFailure", "Never"')
    return error


def _check_change(job: Obj, old: Obj) -> Iterator[FieldError]:
    """A job that has not started yet, or waits, may still be directed to nodes."""
    spec, before = job["spec"], old["spec"]
    if spec.get("completions") != before.get("completions") and not (
        spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    ):
        yield SPEC.child("completions").invalid("field is immutable", spec.get("completions"))
    template, was = spec["template"], before["template"]
    if before.get("suspend") and at(old, "status", "startTime") is None:
        template, was = _fixed(template), _fixed(was)
    if template != was:
        yield SPEC.child("template").invalid("field is immutable", spec["template"])


def _fixed(template: Obj) -> Obj:
    """The template without what a suspended job may change."""
    loose = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
    containers = [{**each, "resources": {}} for each in template["spec"].get("containers") or ()]
    kept = {name: value for name, value in template["spec"].items() if name not in loose}
    labels = {"labels": None, "annotations": None}
    return {
        **template,
        "metadata": {**(template.get("metadata") or {}), **labels},
        "spec": {**kept, "containers": containers},
    }


# --- tables ---


def _status(job: Obj, now: str) -> str:
    true = {
        each.get("type") for each in at(job, "status", "conditions") or () if each.get("status") == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next(
        (word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if word in true), "Running"
    )


def _completions(job: Obj, now: str) -> str:
    done, wanted = at(job, "status", "succeeded") or 0, at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Obj, now: str) -> str:
    seconds = between(at(job, "status", "startTime"), at(job, "status", "completionTime") or now)
    return "" if seconds is None else told(seconds)


def _complete_cron(cron: Obj) -> None:
    spec = cron["spec"]
    for name, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        if spec.get(name) is None:
            spec[name] = value
    spec.setdefault("schedule", "")
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    complete(template.setdefault("spec", {}), {})


def _check_cron(cron: Obj) -> Iterator[FieldError]:
    spec = cron["spec"]
    if not spec["schedule"]:
        yield SPEC.child("schedule").required("")
    elif not spec["schedule"].startswith("@") and len(spec["schedule"].split()) != 5:
        yield SPEC.child("schedule").invalid(
            "must have five fields: minute, hour, day of month, month, day of week", spec["schedule"]
        )
    if (policy := spec["concurrencyPolicy"]) not in ("Allow", "Forbid", "Replace"):
        yield SPEC.child("concurrencyPolicy").not_supported(policy, ("Allow", "Forbid", "Replace"))
    yield from check_counts(
        spec, "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    yield from _check_spec(spec["jobTemplate"]["spec"], SPEC.child("jobTemplate", "spec"))
    if byte_length(cron["metadata"].get("name") or "") > 52:
        yield FieldPath("metadata", "name").invalid(
            "must be no more than 52 characters", cron["metadata"]["name"]
        )


RESOURCES = (
    Resource(
        group="batch",
        version="v1",
        kind="Job",
        plural="jobs",
        namespaced=True,
        categories=("all",),
        columns=(
            PrinterColumn("Status", "string", _status, "What the job is doing."),
            PrinterColumn("Completions", "string", _completions, "How many pods have done their work."),
            PrinterColumn("Duration", "string", _duration, "How long it took, or is taking."),
            AGE,
            *of_template("spec", "template"),
            selector("spec", "selector"),
        ),
        fields={"status.successful": lambda obj: str(at(obj, "status", "succeeded") or 0)},
        status=True,
        strategy=_JobRules(
            stated=("spec", "status"),
            complete=_complete,
            status={},
            generation=True,
            check=_check,
            check_change=_check_change,
            check_status=check_job_status,
            immutable=("spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.managedBy"),
        ),
        doc="Pods that run until enough of them have done their work.",
    ),
    Resource(
        group="batch",
        version="v1",
        kind="CronJob",
        plural="cronjobs",
        namespaced=True,
        short_names=("cj",),
        categories=("all",),
        columns=(
            text("Schedule", "spec.schedule", "When it runs."),
            text("Timezone", "spec.timeZone", "In which time zone.", absent="<none>"),
            PrinterColumn(
                "Suspend",
                "boolean",
                lambda obj, now: str(bool(at(obj, "spec", "suspend"))),
                "Whether it is stopped.",
            ),
            PrinterColumn(
                "Active", "integer", lambda obj, now: len(at(obj, "status", "active") or ()), "Jobs that run."
            ),
            PrinterColumn(
                "Last Schedule",
                "string",
                lambda obj, now: since(at(obj, "status", "lastScheduleTime"), now, absent="<none>"),
                "When it ran last.",
            ),
            AGE,
            *of_template("spec", "jobTemplate", "spec", "template"),
            selector("spec", "jobTemplate", "spec", "selector"),
        ),
        status=True,
        strategy=StrategyRules(
            stated=("spec", "status"),
            complete=_complete_cron,
            status={},
            generation=True,
            check=_check_cron,
        ),
        doc="Jobs by the clock.",
    ),
)
