"""Cycle after cycle, with a service, a binder and an API server that do as they are told.

What a cycle does in a whole cluster is tested on a real API server; here are the turns of
events that take too long there, or too much luck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from controller.apply import Applier, BindAttempt, Binding, Result
from controller.authority import Authority, Heartbeat
from controller.batch import Backoff, Window
from controller.cache import KINDS, ClusterCache
from controller.cycle import Cycle, CycleOptions
from controller.events import Recorder
from controller.gated_gangs import GATE
from controller.inquiry import Inquiry
from controller.metrics import Metrics
from controller.report import Reporter
from placement import v1
from placement.cluster import ApiError
from placement.errors import PlacementError, UnavailableError
from tests.controller.test_cache import OURS, pod
from tests.controller.test_request import gang
from tests.kubernetes import build

NO_ROOM = v1.Reason(code=v1.ReasonCode.REASON_CODE_OUTCOMPETED, message="no")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Lease:
    leads = True
    term = 0


class Server:
    """Takes every write, and notes it, but for those on `refused` objects."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []
        self.events: list[Any] = []
        self.refused: Counter[str] = Counter()

    def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Any:
        name = path.removesuffix("/status").rpartition("/")[2]
        if name in self.refused:
            self.refused[name] += 1
            raise ApiError(403, "by a webhook")
        if method == "POST":
            self.events.append(body)
        else:
            self.patches.append((path, body))
        return {}


class Setting:
    """A cycle and all that it speaks with; `answer` is what the service does."""

    def __init__(self, pool: ThreadPoolExecutor, **options: Any) -> None:
        self.cache = ClusterCache(OURS)
        for kind in KINDS:
            self.cache.replace(kind, [])
        self.clock, self.lease, self.server, self.metrics = Clock(), Lease(), Server(), Metrics()
        self.authority = Authority(self.lease)
        self.asked: list[v1.ComputePlacementRequest] = []
        self.bound: list[str] = []
        self.binds: Callable[[Binding], BindAttempt] = lambda binding: BindAttempt(
            binding, Result.BOUND
        )
        self.answer: Callable[[v1.ComputePlacementRequest], v1.Placement] = all_on_first_node
        self.relisted = 0
        given: dict[str, Any] = {
            "scheduler_name": OURS,
            "binds": True,
            "window": Window(idle=0.0, longest=0.0, most=10),
            "backoff": Backoff(1.0, 60.0),
            "time_limit": 8.0,
            "policy": v1.Policy(),
            "eviction_timeout": 100.0,
            "keep_gated": 30.0,
            "half_bound_limit": 60.0,
            "waiting_notice": 30.0,
        }
        recorder = Recorder(
            self.server,  # type: ignore[arg-type]
            controller="c",
            instance="i",
            repeat=300.0,
            clock=self.clock,
        )
        heartbeat = Heartbeat(clock=self.clock)
        self.cycle = Cycle(
            CycleOptions(**{**given, **options}),
            cache=self.cache,
            inquiry=Inquiry(
                self,
                timeout=9.0,
                backoff=Backoff(1.0, 60.0),
                notice_after=30.0,
                authority=self.authority,
                heartbeat=heartbeat,
                metrics=self.metrics,
                clock=self.clock,
            ),
            applier=Applier(
                self.cache,
                self,
                pool,
                scheduler_name=OURS,
                may_act=self.authority.may_act,
            ),
            lookup=self,  # type: ignore[arg-type]
            reporter=Reporter(
                self.server,  # type: ignore[arg-type]
                recorder,
                pool,
                clock=self.clock,
            ),
            authority=self.authority,
            heartbeat=heartbeat,
            relist=self._relist,
            metrics=self.metrics,
            clock=self.clock,
        )

    def ask(self, request: v1.ComputePlacementRequest, *, timeout: float) -> v1.Placement:
        self.asked.append(request)
        return self.answer(request)

    def cancel(self) -> None:
        pass

    def bind(self, binding: Binding) -> BindAttempt:
        tried = self.binds(binding)
        if tried.result is Result.BOUND:
            self.bound.append(str(binding))
        return tried

    def _relist(self) -> None:
        self.relisted += 1

    def observe(self, *bodies: build.Body) -> None:
        for body in bodies:
            self.cache.observe(body["kind"], body)

    @property
    def pause(self) -> float:
        """Seconds until the service is asked again."""
        self.cycle._look()
        return self.cycle._pause()

    def cycles(self, seconds: float) -> None:
        """Lets time pass, with a cycle whenever there is one."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            if self.pause <= 0 or self.cycle._has_news(self.cache.view()):
                self.cycle.once()
            self.clock.now += 0.25

    def told(self) -> list[dict[str, Any]]:
        """Conditions that were written on gangs."""
        return [
            condition
            for path, body in self.server.patches
            if "podgangs" in path
            for condition in body["status"].get("conditions", ())
            if condition["type"] == "Scheduled"
        ]


def all_on_first_node(request: v1.ComputePlacementRequest) -> v1.Placement:
    """Every pod that waits has a place on the first node."""
    placement = v1.Placement()
    for one in request.gangs:
        placement.gangs.append(v1.GangResult(name=one.name, placed=True, placement_score=1.0))
        for group in one.groups:
            for pods in group.pod_sets:
                for free in pods.pods:
                    placement.bindings.append(
                        v1.Binding(
                            pod=free.name,
                            uid=free.uid,
                            node=request.snapshot.nodes[0].name,
                            gang=one.name,
                            group=group.name,
                        )
                    )
    return placement


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def setting(pool: ThreadPoolExecutor) -> Setting:
    return Setting(pool)


def raises(error: PlacementError) -> Callable[[object], v1.Placement]:
    def answer(request: object) -> v1.Placement:
        raise error

    return answer


def unreadable(name: str) -> build.Body:
    return gang(name, f"{name}-a", priorityClassName="there-is-none")


def test_a_gang_that_has_a_place_is_bound(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a", "b"), pod("a"), pod("b"))
    setting.cycle.once()
    assert setting.bound == ["a on n1", "b on n1"]
    assert setting.told()[-1]["status"] == "True"


def test_after_a_failure_who_is_refused_does_not_keep_it_busy(setting: Setting) -> None:
    """The gang that the service was asked about in vain is gone, the refused one is not."""
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycle.once()
    setting.observe(unreadable("h"), pod("h-a"))
    setting.cache.observe("PodGang", gang("g", "a"), deleted=True)
    setting.clock.now += 20.0
    assert setting.pause <= 0
    setting.cycle.once()
    assert setting.pause >= 1.0


def test_without_an_answer_the_question_stays(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycles(100.0)
    # At most every ten seconds, and never given up.
    assert 10 <= len(setting.asked) <= 16
    setting.answer = all_on_first_node
    setting.cycles(10.0)
    assert setting.bound == ["a on n1"]


def test_failures_whose_words_differ_are_told_once(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    words = iter(range(1000))
    setting.answer = lambda _: raises(UnavailableError(f"address {next(words)}"))(None)
    setting.cycles(200.0)
    assert [one["reason"] for one in setting.told()] == ["NoAnswer"]


def test_a_gang_of_which_no_pod_can_be_bound_is_reported(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a", "b"), pod("a"), pod("b"))
    setting.binds = lambda binding: BindAttempt(binding, Result.REFUSED, "403 by a webhook")
    setting.cycles(29.0)
    assert setting.told() == []
    setting.cycles(30.0)
    told = setting.told()[-1]
    assert (told["status"], told["reason"]) == ("False", "NotBound")
    assert "a on n1: 403 by a webhook" in told["message"]
    pods = [body for path, body in setting.server.patches if "/pods/" in path]
    assert {one["status"]["conditions"][0]["reason"] for one in pods} == {"SchedulerError"}
    setting.binds = lambda binding: BindAttempt(binding, Result.BOUND)
    setting.cycles(70.0)
    assert setting.told()[-1]["status"] == "True"


def test_a_gang_whose_plans_are_always_overtaken_is_reported(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    others = iter(range(10_000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # While the answer is made, another scheduler binds a pod to the node.
        setting.observe(build.pod(f"x{next(others)}", nodeName="n1"))
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycles(40.0)
    assert setting.bound == []
    assert [one["reason"] for one in setting.told()] == ["NotBound"]
    assert "overtaken by events: node n1 has changed" in setting.told()[-1]["message"]


def test_where_others_bind_all_the_time_it_asks_for_quicker_answers(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    others = iter(range(10_000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        if request.time_limit.ToTimedelta().total_seconds() > 1.5:
            setting.observe(build.pod(f"x{next(others)}", nodeName="n1"))
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycles(10.0)
    assert setting.bound == ["a on n1"]
    assert [one.time_limit.seconds for one in setting.asked] == [8, 4, 2, 1]
    setting.observe(gang("h", "b"), pod("b"))
    setting.clock.now += 1.0
    setting.cycle.once()
    assert setting.asked[-1].time_limit.seconds == 8


def test_a_plan_of_an_earlier_term_is_not_carried_out(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # The lease was lost, another led, and it is ours again.
        setting.lease.term += 1
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycle.once()
    assert setting.bound == []
    assert not setting.authority.leads()


def nobody_fits(request: v1.ComputePlacementRequest) -> v1.Placement:
    return v1.Placement(
        gangs=[v1.GangResult(name=one.name, reasons=[NO_ROOM]) for one in request.gangs]
    )


def test_of_more_gangs_than_a_question_takes_everybody_has_a_turn(
    pool: ThreadPoolExecutor,
) -> None:
    setting = Setting(pool, window=Window(idle=0.0, longest=0.0, most=2))
    setting.observe(build.node("n1"))
    for name in "abcde":
        setting.observe(gang(name, f"{name}-a"), pod(f"{name}-a"))
    setting.answer = nobody_fits
    setting.cycles(600.0)
    turns = Counter(one.name for request in setting.asked for one in request.gangs)
    assert len(turns) == 5
    assert min(turns.values()) >= 9
    # And back-off holds: at the longest one three questions a minute do for five gangs.
    assert len(setting.asked) < 60


def test_gangs_without_a_score_wait_until_there_is_room_in_the_question(
    pool: ThreadPoolExecutor,
) -> None:
    setting = Setting(pool, window=Window(idle=0.0, longest=0.0, most=2))
    setting.observe(build.node("n1"), gang("runs", "r"), pod("r", node="n1"))
    setting.answer = nobody_fits
    for name in "abc":
        setting.observe(gang(name, f"{name}-a"), pod(f"{name}-a"))
    setting.cycles(100.0)
    # Back-off holds: without it there would be one every quarter of a second.
    assert len(setting.asked) < 40


def test_a_gang_about_which_nothing_is_said_is_not_asked_about_without_end(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("runs", "r"), pod("r", node="n1"))
    setting.answer = lambda request: v1.Placement()
    setting.cycles(10.0)
    assert len(setting.asked) == 1


def test_who_does_not_lead_any_more_tells_no_old_figures(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycle.once()

    def pending() -> float | None:
        return setting.metrics.registry.get_sample_value(
            "placement_controller_gangs", {"state": "pending"}
        )

    assert pending() == 1
    setting.metrics.nothing_known()
    assert pending() == 0


def test_what_cannot_be_written_keeps_no_other_report_waiting(setting: Setting) -> None:
    setting.server.refused["bad"] = 0
    setting.observe(build.node("n1"), gang("bad", "a"), pod("a"))
    setting.cycles(100.0)
    # After 2, 4, 8 seconds, and then every 15.
    assert 7 <= setting.server.refused["bad"] <= 12
    setting.observe(gang("good", "b"), pod("b"))
    setting.cycles(1.0)
    assert setting.told()[-1]["status"] == "True"
    attempts = setting.server.refused.pop("bad")
    assert attempts >= 7
    setting.cycles(16.0)
    assert sum("podgangs/bad" in path for path, _ in setting.server.patches) == 1


def test_numbers_that_change_make_no_new_events(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    numbers = iter(range(1000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        reason = v1.Reason(code=NO_ROOM.code, message=f"room for {next(numbers)}")
        return v1.Placement(gangs=[v1.GangResult(name=request.gangs[0].name, reasons=[reason])])

    setting.answer = answer
    setting.cycles(280.0)
    # The gang's condition has them all; the gang and its pod have an event each.
    assert len(setting.told()) >= 8
    assert len(setting.server.events) == 2


def test_pods_get_the_last_message_too_if_later(setting: Setting) -> None:
    """They get one a minute; what was said in between must not stay for ever."""
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    message = "room for 3"

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        reason = v1.Reason(code=NO_ROOM.code, message=message)
        return v1.Placement(gangs=[v1.GangResult(name=request.gangs[0].name, reasons=[reason])])

    def written() -> list[str]:
        bodies = [body for path, body in setting.server.patches if "/pods/" in path]
        for body in bodies:
            setting.observe({**pod("a"), "status": body["status"]})
        return [body["status"]["conditions"][0]["message"] for body in bodies]

    setting.answer = answer
    setting.cycles(10.0)
    assert written() == ["Outcompeted: room for 3"]
    message = "room for 2"
    setting.cycles(10.0)
    assert written() == ["Outcompeted: room for 3"]
    setting.cycles(130.0)
    assert written() == ["Outcompeted: room for 3", "Outcompeted: room for 2"]
    setting.cycles(130.0)
    assert len(written()) == 2


def test_a_later_gang_of_the_name_is_not_told_what_was_said_about_the_first(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    later = gang("g", "b")
    later["metadata"]["uid"] = "later"

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # Meanwhile it is deleted and made anew.
        setting.observe(later, pod("b"))
        return nobody_fits(request)

    setting.answer = answer
    setting.cycle.once()
    assert setting.told() == []
    setting.answer = all_on_first_node
    setting.cycles(3.0)
    assert setting.bound == ["b on n1"]
    assert [one["status"] for one in setting.told()] == ["True"] * len(setting.told())


def gated(name: str) -> build.Body:
    body = pod(name)
    body["metadata"]["labels"] = {"grove.io/base-podgang": "base"}
    body["spec"]["schedulingGates"] = [{"name": GATE}]
    return body


def test_what_was_answered_about_a_gated_gang_is_not_its_state(setting: Setting) -> None:
    """It is asked along with its base; once its gate has gone it is another gang."""
    setting.observe(build.node("n1"), gang("base", "a"), pod("a"))
    setting.observe(gang("scaled", "s"), gated("s"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        placement = nobody_fits(request)
        del placement.gangs[0].reasons[:]
        placement.MergeFrom(v1.Placement(bindings=all_on_first_node(request).bindings[:1]))
        return placement

    setting.answer = answer
    setting.cycles(5.0)
    assert setting.bound == ["a on n1"]
    setting.answer = raises(UnavailableError("down"))
    open_ = pod("s")
    open_["metadata"]["labels"] = {"grove.io/base-podgang": "base"}
    setting.observe(open_)
    setting.cycles(5.0)
    assert [path for path, _ in setting.server.patches if "scaled" in path or "/s/" in path] == []


def test_an_answer_about_pods_that_are_gone_is_forgotten(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = nobody_fits
    setting.cycle.once()
    assert [one["reason"] for one in setting.told()] == ["Outcompeted"]
    setting.observe({**gated("a"), "metadata": {**gated("a")["metadata"], "uid": "new"}})
    setting.cycles(5.0)
    setting.answer = raises(UnavailableError("down"))
    setting.observe({**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "new"}})
    setting.cycles(5.0)
    pods = [path for path, _ in setting.server.patches if "/pods/" in path]
    assert len(pods) == 1


def test_a_gang_whose_node_is_gone_is_told_so_at_once(setting: Setting) -> None:
    runs = gang("g", "a")
    placed = {"type": "Scheduled", "status": "True", "reason": "Placed", "lastTransitionTime": "x"}
    runs["status"]["conditions"] = [*runs["status"]["conditions"], placed]
    setting.observe(build.node("n1"), runs, pod("a", node="n1"))
    setting.cycles(1.0)
    setting.cache.observe("Node", build.node("n1"), deleted=True)
    setting.cycles(1.0)
    assert (setting.told()[-1]["status"], setting.told()[-1]["reason"]) == (
        "False",
        "WaitingForPods",
    )


def test_the_message_says_for_whom_room_is_kept(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("base", "a"), pod("a", node="n1"))
    setting.observe(gang("scaled", "s"), gated("s"), gang("other", "x"), pod("x"))
    setting.answer = nobody_fits
    setting.cycle.once()
    (told,) = (one for one in setting.told() if one["status"] == "False")
    assert "room is kept for a moment for scaled gangs" in told["message"]
    assert told["message"].endswith(": ml/scaled")


def test_when_room_is_kept_no_longer_those_that_wait_are_asked_about_at_once(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("base", "a"), pod("a", node="n1"))
    setting.observe(gang("scaled", "s"), gated("s"), gang("other", "x"), pod("x"))
    setting.answer = nobody_fits
    setting.cycles(29.0)
    setting.answer = all_on_first_node
    setting.cycles(2.0)
    assert setting.bound == ["x on n1"]


def test_a_dry_run_logs_each_plan_once(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    setting = Setting(pool, binds=False)
    caplog.set_level("INFO", "controller.dry_run")

    def logged() -> list[str]:
        return [m for m in caplog.messages if m.startswith(("would", "no longer has"))]

    setting.observe(build.node("n1"), gang("g", "a"), pod("a"), gang("h", "b"), pod("b"))
    setting.cycles(200.0)
    assert len(setting.asked) > 3
    assert logged() == ["would bind a on n1", "would bind b on n1"]
    setting.answer = nobody_fits
    setting.cycles(200.0)
    assert logged()[2:] == ["no longer has a place"] * 2
    assert setting.bound == []
