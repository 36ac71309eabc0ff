"""The drawing, as text that can be checked by eye against the question."""

from __future__ import annotations

from textwrap import dedent

import pytest

from placement import v1
from placement.cli.plan.drawing import draw
from placement.cli.plan.picture import compose
from placement.cli.plan.summary import summarize
from tests.cli.question import BLOCK, RACK, gang, node, question, reply


def lines(request: v1.ComputePlacementRequest, placement: v1.Placement, width: int = 80) -> str:
    """The drawing without blanks at line ends."""
    summary = summarize(request, placement)
    text = draw(compose(request, summary), summary, width=width).plain
    return "\n".join(line.rstrip() for line in text.splitlines())


def want(text: str) -> str:
    return dedent(text).strip("\n")


def test_nodes_are_drawn_gpu_by_gpu_when_there_is_room() -> None:
    """a: 8 + 4 GPUs, b: 2 GPUs beside it; 3 GPUs of n3 were in use; n4 is cordoned."""
    request = question(
        [
            node("n1", gpus=8, rack="r1"),
            node("n2", gpus=8, rack="r1"),
            node("n3", gpus=8, used=3, rack="r2"),
            node("n4", gpus=8, cordoned=True, rack="r2"),
        ],
        [gang("a", pods=3, gpus=4, required=RACK), gang("b", pods=1, gpus=2)],
    )
    placement = reply(request, {"a": "n1 n1 n2", "b": "n2"})
    assert lines(request, placement) == want(
        """
        ╭─ 2 racks ─ 32 GPUs, 7 free ─╮
        │ r1 AAAAAAAA AAAABB··        │
        │ r2 ▒▒▒····· ××××××××        │
        ╰─────────────────────────────╯
         A  a    B  b
        each letter a GPU   · free   ▒ in use before   × takes no pods
        """
    )


def test_narrower_a_node_is_one_letter() -> None:
    """In 30 columns two nodes of 8 GPUs have no room beside the frame and the label.

    a fills n1 and leaves room on n2 but b is there too; n3 is partly, n4 wholly in use.
    """
    request = question(
        [
            node("n1", gpus=16, rack="r1"),
            node("n2", gpus=16, rack="r1"),
            node("n3", gpus=16, used=3, rack="r1"),
            node("n4", gpus=16, used=16, rack="r1"),
            node("n5", gpus=16, rack="r1"),
            node("n6", gpus=16, rack="r1"),
        ],
        [gang("a", pods=3, gpus=8, required=RACK), gang("b", pods=2, gpus=2)],
    )
    placement = reply(request, {"a": "n1 n1 n2", "b": "n2 n5"})
    assert lines(request, placement, width=30) == want(
        """
        ╭─ 1 rack ─ 96 GPUs, 49 free ─╮
        │ r1 A&░▒b·                   │
        ╰─────────────────────────────╯
         A  a    B  b
        each letter a node
        a leaves room on its node
        & several gangs   · free
        ░ partly in use before
        ▒ in use before
        """
    )


def test_blocks_are_boxes_and_racks_are_rows() -> None:
    request = question(
        [node(f"n{i}", gpus=2, block=f"b{i // 4}", rack=f"r{i // 2}") for i in range(8)],
        [gang("a", pods=3, gpus=2, required=BLOCK, preferred=RACK)],
    )
    assert lines(request, reply(request, {"a": "n0 n1 n2"})) == want(
        """
        ╭─ block b0 ─ 8 GPUs, 2 free ─╮ ╭─ block b1 ─ 8 GPUs, 8 free ─╮
        │ r0 AA AA                    │ │ r2 ·· ··                    │
        │ r1 AA ··                    │ │ r3 ·· ··                    │
        ╰─────────────────────────────╯ ╰─────────────────────────────╯
         A  a
        each letter a GPU   · free
        """
    )


def test_a_rack_in_two_blocks_is_drawn_in_both_and_marked() -> None:
    request = question(
        [
            node("n1", gpus=2, block="b0", rack="r1"),
            node("n2", gpus=2, block="b0", rack="r2"),
            node("n3", gpus=2, block="b1", rack="r2"),
            node("n4", gpus=2, block="b1", rack="r3"),
        ],
        [gang("a", pods=1, gpus=2, required=RACK), gang("b", pods=1, gpus=2, required=BLOCK)],
    )
    assert lines(request, reply(request, {"a": "n2", "b": "n3"})) == want(
        """
        ╭─ block b0 ─ 4 GPUs, 2 free ─╮ ╭─ block b1 ─ 4 GPUs, 2 free ─╮
        │ r1  ··                      │ │ r2* BB                      │
        │ r2* AA                      │ │ r3  ··                      │
        ╰─────────────────────────────╯ ╰─────────────────────────────╯
         A  a    B  b
        each letter a GPU   · free   * rack lies in several blocks
        """
    )


def test_nodes_without_the_label_are_in_no_rack() -> None:
    request = question(
        [node("n1", gpus=4, rack="r1"), node("n2", gpus=4), node("n3", gpus=4)],
        [gang("a", pods=1, gpus=3, preferred=RACK)],
    )
    assert lines(request, reply(request, {"a": "n2"})) == want(
        """
        ╭─ 1 rack ─ 12 GPUs, 9 free ─╮
        │ r1      ····               │
        │ no rack AAA· ····          │
        ╰────────────────────────────╯
         A  a
        each letter a GPU   · free
        """
    )


def test_without_any_level_there_is_one_box_of_nodes() -> None:
    request = question([node("n1", gpus=2), node("n2", gpus=2)], [gang("a", pods=1, gpus=2)])
    assert lines(request, reply(request, {"a": "n1"})) == want(
        """
        ╭─ 2 nodes ─ 4 GPUs, 2 free ─╮
        │ AA ··                      │
        ╰────────────────────────────╯
         A  a
        each letter a GPU   · free
        """
    )


def test_a_node_without_gpus_shows_its_pods() -> None:
    """Two pods of 16 CPUs leave half of n1; n2 has 60 of 64 CPUs in use before."""
    request = question(
        [node("n1"), node("n2", cpus_used=60), node("n3")], [gang("a", pods=2, cpus=16)]
    )
    assert lines(request, reply(request, {"a": "n1 n1"})) == want(
        """
        ╭─ cluster ─ 3 nodes ─╮
        │ AA· ▒ ·             │
        ╰─────────────────────╯
         A  a
        each letter a pod   · free   ▒ in use before
        """
    )


def test_pods_without_gpus_stand_beside_the_gpus_of_their_node() -> None:
    request = question([node("n1", gpus=4)], [gang("a", pods=1, gpus=2), gang("b", pods=3, cpus=1)])
    assert lines(request, reply(request, {"a": "n1", "b": "n1 n1 n1"})) == want(
        """
        ╭─ 1 node ─ 4 GPUs, 2 free ─╮
        │ AA··+b                    │
        ╰───────────────────────────╯
         A  a    B  b
        each letter a GPU   +a pods without GPUs   · free
        """
    )


def test_pods_that_ran_before_carry_their_gang_s_letter() -> None:
    """The running pod's 4 GPUs are known from its pending sibling; 1 more is a stranger's."""
    request = question(
        [node("n1", gpus=8, used=5, rack="r1"), node("n2", gpus=8, rack="r1")],
        [gang("a", pods=1, gpus=4, bound=["n1"], required=RACK)],
    )
    assert lines(request, reply(request, {"a": "n2"})) == want(
        """
        ╭─ 1 rack ─ 16 GPUs, 7 free ─╮
        │ r1 ▒AAAA··· AAAA····       │
        ╰────────────────────────────╯
         A  a
        each letter a GPU   · free   ▒ in use before
        """
    )


def test_gpus_are_not_drawn_one_by_one_when_it_is_not_known_whose_they_are() -> None:
    """All pods of the gang run, so nothing says how many of the 4 GPUs are its own."""
    request = question(
        [node("n1", gpus=8, used=4), node("n2", gpus=8)],
        [gang("a", pods=0, bound=["n1"])],
    )
    assert lines(request, reply(request, {})) == want(
        """
        ╭─ 2 nodes ─ 16 GPUs, 12 free ─╮
        │ a·                           │
        ╰──────────────────────────────╯
         A  a
        each letter a node   a leaves room on its node   · free
        """
    )


def big_cluster() -> v1.ComputePlacementRequest:
    """60 blocks of 20 racks of 18 nodes; block b59 is in use before, half of b58 too."""
    nodes = [
        node(
            f"b{b}-r{r}-n{n}",
            gpus=4,
            used=4 if b == 59 or (b == 58 and r < 10) or (b == 0 and r == 1) else 0,
            block=f"b{b}",
            rack=f"b{b}-r{r}",
        )
        for b in range(60)
        for r in range(20)
        for n in range(18)
    ]
    return question(nodes, [gang("a", pods=10, gpus=4, required=RACK)])


def test_thousands_of_nodes_fold_to_what_matters() -> None:
    request = big_cluster()
    placement = reply(request, {"a": " ".join(f"b0-r0-n{n}" for n in range(10))})
    assert lines(request, placement) == want(
        """
        ╭─ block b0 ─ 1,440 GPUs, 1,328 free ─╮
        │ b0-r0 AAAAAAAAAA········            │
        │ + 18 racks, all free                │
        │ + 1 rack, nothing free              │
        ╰─────────────────────────────────────╯
        + 57 blocks, all free
        + 1 block, nothing free
        + 1 block, 720 of 1,440 GPUs free
         A  a
        each letter a node   · free
        """
    )


def test_a_whole_cluster_without_any_gang_folds_too() -> None:
    request = big_cluster()
    del request.gangs[:]
    assert lines(request, v1.Placement()) == want(
        """
        + 57 blocks, all free
        + 1 block, nothing free
        + 2 blocks, 2,088 of 2,880 GPUs free
        """
    )


def test_levels_that_gangs_use_come_before_well_known_ones() -> None:
    """Zone is well known, but block and rack are what the gangs ask for."""
    nodes = [node(f"n{i}", gpus=2, block=f"b{i // 4}", rack=f"r{i // 2}") for i in range(8)]
    for index, one in enumerate(nodes):
        one.labels["topology.kubernetes.io/zone"] = f"z{index % 2}"
    gangs = [gang("a", pods=1, gpus=1, required=BLOCK, preferred=RACK)]
    request = question(nodes, gangs)
    assert "z0" not in lines(request, reply(request, {"a": "n0"}))
    request.gangs[0].packing_scopes[0].preferred_level = ""
    for one in request.snapshot.nodes:
        del one.labels[RACK]
    assert "z0" in lines(request, reply(request, {"a": "n0"}))


def test_letters_repeat_only_when_they_must_and_the_legend_says_so() -> None:
    request = question(
        [node(f"n{i}", gpus=2) for i in range(60)],
        [gang(f"g{i}", pods=1, gpus=2) for i in range(60)],
    )
    text = lines(request, reply(request, {f"g{i}": f"n{i}" for i in range(60)}))
    assert "60 gangs, named in the table, letters come again" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("gpus", [1, 4, 8])
@pytest.mark.parametrize("size", [1, 7, 40, 300])
def test_the_drawing_keeps_to_its_width(width: int, gpus: int, size: int) -> None:
    nodes = [
        node(f"n{i}", gpus=gpus, block=f"block-{i % 3}", rack=f"{'long-name-' * 5}{i % 11}")
        for i in range(size)
    ]
    request = question(nodes, [gang("a", pods=size, gpus=1, preferred=RACK)])
    placement = reply(request, {"a": " ".join(f"n{i}" for i in range(size))})
    assert max(len(line) for line in lines(request, placement, width).splitlines()) <= width
