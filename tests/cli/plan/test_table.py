"""The table and what stands below it, as text checked by eye."""

from __future__ import annotations

import io
from textwrap import dedent

import pytest

from placement import v1
from placement.cli.plan.screen import screen
from placement.cli.plan.table import first_sentence
from tests.cli.question import BLOCK, RACK, gang, node, question, reply, tier


def below_the_drawing(
    request: v1.ComputePlacementRequest, placement: v1.Placement, *, width: int = 80
) -> str:
    text = screen(request, placement, file=io.StringIO(), width=width)
    return text.split("\n\n", 1)[1]


def an_answer() -> tuple[v1.ComputePlacementRequest, v1.Placement]:
    request = question(
        [node(f"n{i}", gpus=8, block="b0", rack=f"r{i // 2}") for i in range(4)],
        [
            gang("serve", pods=3, gpus=8, required=BLOCK, preferred=RACK),
            gang("batch", pods=2, gpus=8, minimum=1),
            gang("train", pods=4, gpus=8, required=RACK),
        ],
    )
    placement = reply(
        request,
        {"serve": "n0 n1 n2", "batch": "n3"},
        tiers=[
            tier("admitted", 32, 33),
            tier("extra", 0, 0),
            tier("topology", 1),
            tier("fragmentation", 4),
        ],
        reasons={
            "batch": [v1.Reason(message="1 extra pod waits: no node has 8 nvidia.com/gpu left.")],
            "train": [v1.Reason(message="Rack r0 has room for 2 of 4 pods. Rack r1 is equal.")],
        },
        scores={"serve": 1.0, "batch": 0.5},
    )
    placement.termination.reason = v1.TerminationReason.TERMINATION_REASON_FEASIBLE
    placement.termination.limit = v1.TerminationLimit.TERMINATION_LIMIT_TIME
    placement.stats.elapsed.FromMilliseconds(10_000)
    placement.stats.first_answer.FromMilliseconds(12)
    return request, placement


def test_everything_that_people_ask_is_there_in_80_columns() -> None:
    assert below_the_drawing(*an_answer()) == dedent(
        """\
              gang    state     pods   min   score   where, or why not
        ───────────────────────────────────────────────────────────────────────────────
         A    serve   placed     3/3     3       1   block b0, 2 racks (r0 r1), 3 nodes
         B    batch   partly     1/2     1     0.5   1 node
              train   waiting    0/4     4       –   Rack r0 has room for 2 of 4 pods.

        batch: why pods wait
          1 extra pod waits: no node has 8 nvidia.com/gpu left.

        train waits
          Rack r0 has room for 2 of 4 pods. Rack r1 is equal.

        objective       value   bound   which is
        ─────────────────────────────────────────────────────────────────
        admitted           32      33   within 3.2 % of the best possible
        extra               0       0   proven optimal
        topology            1       –   without a known bound
        fragmentation       4       –   best effort

        2 of 3 gangs placed, 4 pods to bind. Admitted within 3.2 % of the best possible;
        the time limit ended the search.
        10.0 s, first answer after 12 ms
        """
    )


def test_where_there_is_room_people_are_told_what_the_tiers_mean() -> None:
    """In 80 columns when all is proven, in more when the verdicts are longer."""
    text = below_the_drawing(*an_answer(), width=160)
    assert "within 3.2 % of the best possible   GPUs of admitted gangs" in text
    request, placement = an_answer()
    del placement.tiers[:]
    placement.tiers.add(name="admitted", value=32, bound=32)
    assert "proven optimal   GPUs of admitted gangs" in below_the_drawing(request, placement)


def test_without_gangs_it_says_that_nothing_was_asked() -> None:
    request = question([node("n1", gpus=8)], [])
    text = below_the_drawing(request, reply(request, {}))
    assert text.startswith("Nothing was asked: there is no gang in the input.")


def test_thousands_are_told_apart_in_both_counts_of_gangs() -> None:
    names = [f"g{i}" for i in range(1001)]
    request = question([node("n1", gpus=1001)], [gang(n, pods=1, gpus=1) for n in names])
    text = below_the_drawing(request, reply(request, dict.fromkeys(names, "n1")))
    assert "1,001 of 1,001 gangs placed" in text


def test_new_pods_have_a_column_when_others_ran_before() -> None:
    request = question([node("n1", gpus=8)], [gang("a", pods=1, gpus=1, bound=["n1"])])
    text = below_the_drawing(request, reply(request, {"a": "n1"}))
    header, _, row = (line.split() for line in text.splitlines()[:3])
    assert header[:4] == ["gang", "state", "new", "pods"]
    assert row[:5] == ["A", "a", "placed", "1", "2/2"]


def waits(text: str) -> list[str]:
    """The lines of the gangs, without blanks between columns."""
    return [" ".join(line.split()) for line in text.splitlines()[:5]]


def test_who_waits_says_how_long_where_that_is_known() -> None:
    """Not where no gang still waits, and not for a gang that ran all the time."""
    ran = gang("ran", pods=0, gpus=1, bound=["n0"], created=1)
    asked = [gang("new", pods=1, gpus=8, created=960), gang("old", pods=1, gpus=8, created=100)]
    request = question([node("n0", gpus=8)], [ran, *asked, gang("unknown", pods=1)], as_of=1_000)
    placed = reply(request, {"new": "n0"}, scores={"new": 1.0, "ran": 1.0})
    assert waits(below_the_drawing(request, placed, width=100)) == [
        "gang state new pods score waited where, or why not",
        "─" * 73,
        "A ran running 0 1/1 1 1 node",
        "B new placed 1 1/1 1 40s 1 node",
        "old waiting 0 0/1 – 15m",
    ]
    request.ClearField("snapshot")
    assert "waited" not in below_the_drawing(request, placed)


def test_a_reason_that_the_row_tells_whole_is_not_repeated() -> None:
    request = question([node("n1")], [gang("a", pods=1)])
    reason = "No node has 1 nvidia.com/gpu free."
    placement = reply(request, {}, reasons={"a": [v1.Reason(message=reason)]})
    assert below_the_drawing(request, placement).count(reason) == 1


def test_text_from_the_cluster_is_not_taken_for_markup() -> None:
    request = question([node("n1", rack="[red]r1")], [gang("a", pods=1, required=RACK)])
    placement = reply(request, {"a": "n1"}, reasons={"a": [v1.Reason(message="[bold]no[/x]")]})
    text = screen(request, placement, file=io.StringIO(), width=80)
    assert "rack [red]r1" in text
    assert "[bold]no[/x]" in text


def test_text_from_the_cluster_cannot_steer_the_terminal() -> None:
    request = question([node("n1", rack="r\x1b[2J1")], [gang("a", pods=1, required=RACK)])
    placement = reply(request, {"a": "n1"}, reasons={"a": [v1.Reason(message="\x1b]0;x\x07")]})
    text = screen(request, placement, file=io.StringIO(), width=80)
    assert "rack r?[2J1" in text
    assert "?]0;x?" in text
    assert "\x1b" not in text


def test_without_a_terminal_there_are_no_colours() -> None:
    assert "\x1b" not in screen(*an_answer(), file=io.StringIO(), width=80)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_lines_keep_to_the_width_and_end_without_blanks(width: int) -> None:
    lines = screen(*an_answer(), file=io.StringIO(), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("One. Two.", "One."),
        ("One of 1.5 GPUs. Two", "One of 1.5 GPUs."),
        ("rack r1.example has room", "rack r1.example has room"),
        ("", ""),
    ],
)
def test_first_sentences(text: str, want: str) -> None:
    assert first_sentence(text) == want


@pytest.mark.parametrize("width", [60, 72, 80, 90, 100, 120, 160])
def test_however_narrow_it_is_no_word_is_lost(width: int) -> None:
    request = question(
        [node(f"n{i}", gpus=8, block="b0", rack=f"r{i // 2}") for i in range(4)],
        [
            gang("a-name-of-thirty-two-characters", pods=3, gpus=8, minimum=2),
            gang("train", pods=4, gpus=8, required=RACK),
        ],
    )
    request.gangs[0].groups[0].bound_pods.add(name="namespaces/ml/pods/runs", node="nodes/n0")
    message = "Rack r0 has room for 2 of 4 pods of 8 nvidia.com/gpu."
    placement = reply(
        request,
        {"a-name-of-thirty-two-characters": "n1 n2 n3"},
        scores={"a-name-of-thirty-two-characters": 1.0},
        reasons={"train": [v1.Reason(message=message)]},
    )
    table = below_the_drawing(request, placement, width=width)
    assert max(map(len, table.splitlines())) <= width
    for word in (*message.split(), "new", "min", "score", "where,", "why", "nodes"):
        assert word in table.split()
    assert "a-name-of-thirty-two-characters" in table or width < 80
