"""A kubelet for every node at once, without containers.

Pods that are bound become Running and Ready; pods that are deleted go away, as
their kubelet would let them. What it does not do: it neither starts nor restarts
anything, reports no nodes and looks at no resources, unless told to with `refuses`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from urllib3.exceptions import HTTPError

from tests.cluster.api import PODS, Api, ApiError, Body
from tests.cluster.informer import Informer

_WORKERS: Final = 8


class FakeKubelet:
    """Runs from `start` to `stop`, which raises what went wrong meanwhile.

    `delay` seconds pass before a bound pod is Running. `refuses` tells why a node
    does not take a pod ("OutOfcpu"), which then fails, or returns "".
    """

    def __init__(
        self, api: Api, *, delay: float = 0.0, refuses: Callable[[Body], str] = lambda _: ""
    ) -> None:
        self._api = api
        self._delay = delay
        self._refuses = refuses
        self._informer = Informer(api, PODS, self._see, fieldSelector="spec.nodeName!=")
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fake-kubelet")
        self._errors: list[BaseException] = []

    def start(self) -> None:
        self._informer.start()

    def stop(self) -> None:
        self._informer.stop()
        self._pool.shutdown()
        if self._errors:
            raise self._errors[0]

    def _see(self, pod: Body, is_gone: bool) -> None:
        if is_gone:
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._pool.submit(self._act, self._remove, pod)
        elif pod["status"].get("phase") == "Pending":
            self._pool.submit(self._act, self._run, pod)

    def _act(self, act: Callable[[Body], None], pod: Body) -> None:
        """Do it until it is done: an API server that is down comes back."""
        while not self._informer.is_stopping:
            try:
                act(pod)
            except ApiError as error:
                # Gone, another pod of the name, or already done: the next event tells.
                if error.status in (404, 409) or "metadata.uid" in str(error):
                    return
                if error.status < 429:
                    self._errors.append(error)
                    return
            except (OSError, HTTPError):
                pass
            except Exception as error:  # told by `stop`, in the thread of the test
                self._errors.append(error)
                return
            else:
                return
            time.sleep(0.2)

    def _run(self, pod: Body) -> None:
        if self._delay:
            time.sleep(self._delay)
        if reason := self._refuses(pod):
            status: Body = {
                "phase": "Failed",
                "reason": reason,
                "message": f"Pod was rejected: {reason}",
            }
        else:
            status = running(pod)
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._api.merge_strategically(
            PODS, metadata["name"], patch, metadata["namespace"], "status"
        )

    def _remove(self, pod: Body) -> None:
        metadata = pod["metadata"]
        self._api.delete(
            PODS, metadata["name"], metadata["namespace"], grace=0, uid=metadata["uid"]
        )


def running(pod: Body) -> dict[str, Any]:
    """The status of a pod whose containers all run and are ready, in a strategic patch."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    true = ("Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": one, "status": "True", "lastTransitionTime": now} for one in true],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "containerID": f"fake://{pod['metadata']['uid']}/{container['name']}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }
