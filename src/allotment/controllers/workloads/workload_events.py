"""The events that the reconciler of one kind writes about its objects."""

from __future__ import annotations

from collections.abc import Callable

from allotment.api.status import StatusError
from allotment.client.form import Obj
from allotment.client.recorder import EventType, Recorder, Subject


class WorkloadEvents:
    """Speaks about objects as JSON values. In lists these do not say what kind they are."""

    def __init__(self, recorder: Recorder, api_version: str, kind: str) -> None:
        self._recorder = recorder
        self._api_version, self._kind = api_version, kind

    def tell(self, obj: Obj, type_: EventType, reason: str, message: str) -> None:
        meta = obj["metadata"]
        subject = Subject(self._api_version, self._kind, meta["name"], meta["namespace"], meta["uid"])
        self._recorder.tell(subject, type_, reason, message)

    def created(self, obj: Obj, pod: str) -> None:
        self.tell(obj, EventType.NORMAL, "SuccessfulCreate", f"Created pod: {pod}")

    def deleted(self, obj: Obj, pod: str) -> None:
        self.tell(obj, EventType.NORMAL, "SuccessfulDelete", f"Deleted pod: {pod}")

    def refused(self, obj: Obj, verb: str) -> Callable[[StatusError], None]:
        """Reports a refusal by the server; ``verb`` is without its last letter: creat, delet."""

        def tell(error: StatusError) -> None:
            message = f"Error {verb}ing: {error.message}"
            self.tell(obj, EventType.WARNING, f"Failed{verb.title()}e", message)

        return tell
