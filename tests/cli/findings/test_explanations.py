"""What planning found, in words that people read at a terminal."""

from __future__ import annotations

from placement import v1
from placement.cli.findings.differences import as_names
from placement.cli.findings.differences import as_text as difference_as_text
from placement.cli.findings.explanations import as_text, capacity_as_text
from placement.cli.findings.repacking import as_text as repacking_as_text
from placement.cli.options.option_values import Freeing, GangName
from placement.planning.diff import difference

STEERING = "\x1b[2J\x07"
GANG = GangName("ml", "g")


def test_names_from_the_cluster_cannot_steer_the_terminal() -> None:
    """Values of labels, and gangs of answers that others wrote, may hold anything."""
    placement = v1.Placement(
        gangs=[v1.GangResult(name=GANG.resource_name, reasons=[v1.Reason(message=STEERING)])]
    )
    explained = v1.ExplainGangResponse(placement=placement, remedies=[v1.Remedy(message=STEERING)])
    explained.elapsed.seconds = 1
    domains = v1.FurtherDomains(level="rack", like=STEERING)
    amount = v1.Amount(value=2, bound=2)
    row = v1.FrontierRow(domains=1, copies=[amount])
    before: dict[str, list[object]] = {"podGangs": []}
    after = {"podGangs": [{"namespace": "ml", "name": STEERING, "placed": True}]}
    differs = difference(before, after)
    texts = [
        as_text(GANG, explained),
        capacity_as_text((), domains, v1.ComputeCapacityResponse(domains=domains, amount=amount)),
        capacity_as_text((GANG,), domains, v1.ComputeCapacityResponse(domains=domains, rows=[row])),
        repacking_as_text(
            Freeing("rack", 1), v1.ComputeRepackingResponse(freed=[STEERING], pods=amount)
        ),
        difference_as_text(differs),
        as_names(differs),
    ]
    for text in texts:
        assert "[2J" in text
        assert all(line.isprintable() for line in text.splitlines()), text


def test_of_a_gang_that_never_fits_it_is_said_where_to_ask() -> None:
    """A queue may keep it out, to which no number of racks matters."""
    none, one = v1.Amount(value=0, bound=0), v1.Amount(value=1, bound=1)
    domains = v1.FurtherDomains(level="example.com/rack", like="r0")
    rows = [v1.FrontierRow(domains=0, copies=[none, none])]
    rows += [v1.FrontierRow(domains=1, copies=[one, none])]
    other = GangName("ml", "h")
    found = v1.ComputeCapacityResponse(domains=domains, rows=rows)
    assert capacity_as_text((GANG, other), domains, found).splitlines() == [
        "more rack like r0  ml/g  ml/h",
        "                0     0     0",
        "                1     1     0",
        "No domain lets ml/h in; explain tells why it waits.",
    ]
    found = v1.ComputeCapacityResponse(amount=none)
    text = "0 copies of ml/g fit beside all that is placed; explain tells why.\n"
    assert capacity_as_text((GANG,), v1.FurtherDomains(), found) == text


def test_one_domain_that_is_missing_is_told_as_one() -> None:
    def told(value: int) -> str:
        amount = v1.Amount(value=value, bound=value)
        domains = v1.FurtherDomains(level="rack", like="r0")
        answer = v1.ComputeCapacityResponse(domains=domains, amount=amount)
        return capacity_as_text((), domains, answer)

    assert told(1) == "1 further domain of rack like r0 places every gang; fewer are not enough.\n"
    assert told(2) == "2 further domains of rack like r0 place every gang; fewer are not enough.\n"


def test_where_enough_is_free_nothing_moves() -> None:
    def told(*moves: v1.Move, needed: int = 0) -> str:
        amount = v1.Amount(value=len(moves), bound=needed)
        found = v1.ComputeRepackingResponse(moves=moves, freed=["r0"], pods=amount)
        return repacking_as_text(Freeing("rack", 1), found)

    assert told() == "free already: r0. Nothing moves.\n"
    move = v1.Move(
        step=1,
        pod="namespaces/ml/pods/p",
        gang=GANG.resource_name,
        from_node="nodes/x1",
        to_node="nodes/x2",
    )
    step, known = told(move, needed=1).splitlines()
    assert step == "step 1: ml/p x1 -> x2"
    assert known == "free then: r0. 1 pod moved; fewer are not enough."
    assert "at least 0 are needed" in told(move)
