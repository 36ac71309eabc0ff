"""What would let a gang in is asked beside the cycle, once for the same reasons."""

from __future__ import annotations

from controller.reports.notices import Notice
from controller.reports.remedies import Remedies
from placement import v1
from placement.errors import UnavailableError

NAME = "namespaces/ml/podgangs/serve"
KEY = ("ml", "serve")
WAITS = Notice("NoEligibleNode", "no node has room")


class Service:
    def __init__(self, *found: v1.Remedy, fails: bool = False) -> None:
        self.found = found
        self.fails = fails
        self.asked: list[v1.ExplainGangRequest] = []

    def explain(self, asked: v1.ExplainGangRequest, _: float) -> v1.ExplainGangResponse:
        self.asked.append(asked)
        if self.fails:
            raise UnavailableError("it is away")
        return v1.ExplainGangResponse(remedies=self.found)


OPEN = v1.Remedy(uncordon=v1.UncordonRemedy(nodes=["nodes/n3"]), message="open n3 (proven)")
ADD = v1.Remedy(add_nodes=v1.AddNodesRemedy(like="nodes/n1", count=1), message="add 1 node")


def answer(code: v1.ReasonCode, *, placed: bool = False) -> v1.Placement:
    reasons = [] if placed else [v1.Reason(code=code)]
    return v1.Placement(gangs=[v1.GangResult(name=NAME, placed=placed, reasons=reasons)])


def considered(service: Service, *answers: v1.Placement, seconds: float = 1.0) -> Notice | None:
    """What is told after some answers."""
    remedies = Remedies(service.explain, seconds=seconds, wake=lambda: None)
    for one in answers:
        remedies.consider(v1.ComputePlacementRequest(), one)
        remedies.wait()
    return remedies.told(KEY, WAITS)


def test_the_cheapest_remedy_is_told_with_the_reasons() -> None:
    told = considered(Service(ADD, OPEN), answer(v1.ReasonCode.REASON_CODE_OUTCOMPETED))
    assert told is not None
    assert told.message == "no node has room; what would let it in: open n3 (proven)"


def test_a_gang_is_asked_about_again_only_when_it_waits_for_other_reasons() -> None:
    service = Service(OPEN)
    outcompeted = answer(v1.ReasonCode.REASON_CODE_OUTCOMPETED)
    considered(service, outcompeted, outcompeted)
    assert len(service.asked) == 1
    considered(service, outcompeted, answer(v1.ReasonCode.REASON_CODE_DEVICES))
    assert len(service.asked) == 3


def test_where_no_remedy_is_possible_or_wanted_nothing_is_asked() -> None:
    service = Service(OPEN)
    considered(service, answer(v1.ReasonCode.REASON_CODE_PODS_MISSING))
    considered(service, answer(v1.ReasonCode.REASON_CODE_OUTCOMPETED, placed=True))
    considered(service, answer(v1.ReasonCode.REASON_CODE_OUTCOMPETED), seconds=0.0)
    assert service.asked == []


def test_a_service_that_cannot_say_leaves_the_reasons_as_they_are() -> None:
    assert considered(Service(fails=True), answer(v1.ReasonCode.REASON_CODE_DEVICES)) == WAITS
    assert considered(Service(), answer(v1.ReasonCode.REASON_CODE_DEVICES)) == WAITS
