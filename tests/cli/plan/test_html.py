"""The page: complete in itself, and safe whatever the cluster calls its things."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser

from placement import __version__, v1
from placement.cli.colours import colour
from placement.cli.plan.html import page
from tests.cli.question import BLOCK, RACK, gang, node, question, reply, tier

EVIL = '<script>alert("x")</script>&\'"'

#: Elements without an end tag.
VOID = frozenset({"meta", "br", "link", "img"})


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def an_answer(name: str = "r1") -> tuple[v1.ComputePlacementRequest, v1.Placement]:
    nodes = [node(f"n{i}", gpus=4, block=f"{name}{i // 2}", rack=f"{name}{i}") for i in range(4)]
    nodes += [node("c1"), node("n8", gpus=4, used=3, cordoned=True)]
    request = question(
        nodes,
        [
            gang("a", pods=2, gpus=4, required=RACK, preferred=BLOCK),
            gang("b", pods=1, gpus=1),
            gang("c", pods=3, cpus=1),
            gang("d", pods=9, gpus=4),
        ],
    )
    placement = reply(
        request,
        {"a": "n0 n1", "b": "n2", "c": "n2 c1 c1"},
        tiers=[tier("admitted", 9, 9)],
        reasons={"d": [v1.Reason(message=f"no room for {name}")]},
    )
    return request, placement


def test_the_page_is_well_formed_and_tells_the_plan() -> None:
    reader = read(page(*an_answer()))
    text = " ".join(reader.text)
    for told in ("3 of 4 gangs placed", "block r10", "proven optimal", "No room for r1", "waiting"):
        assert told in text


def test_who_waits_says_how_long_where_that_is_known() -> None:
    request = question([node("n", gpus=4)], [gang("a", pods=1, gpus=8, created=100)], as_of=12_100)
    text = page(request, reply(request, {}))
    assert '<th class="n">waited</th>' in text
    assert '<td class="n">3h20m</td>' in text
    request.gangs[0].ClearField("create_time")
    assert "waited" not in page(request, reply(request, {}))


def test_names_from_the_cluster_are_escaped() -> None:
    request, placement = an_answer(EVIL)
    placement.gangs[0].scopes[0].domains[:] = [EVIL]
    text = page(request, placement)
    assert "<script" not in text
    reader = read(text)
    assert "script" not in reader.tags
    assert any(EVIL in value for name, value in reader.attributes if name == "title")
    assert not any(name.startswith("on") for name, _ in reader.attributes)


def test_nothing_is_loaded_from_elsewhere() -> None:
    reader = read(page(*an_answer()))
    assert not {name for name, _ in reader.attributes} & {"src", "href", "srcset", "action"}
    assert "url(" not in page(*an_answer())
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in reader.attributes


def test_a_cell_tells_who_sits_on_the_node() -> None:
    titles = [value for name, value in read(page(*an_answer())).attributes if name == "title"]
    assert "n0\na: 1 new, 4 GPUs\n0 of 4 GPUs free" in titles
    assert "n2\nb: 1 new, 1 GPU\nc: 1 new\n3 of 4 GPUs free" in titles
    assert "n8\n1 of 4 GPUs free\ntakes no new pods" in titles
    assert "c1\nc: 2 new" in titles


def test_an_empty_answer_is_a_page_too() -> None:
    read(page(v1.ComputePlacementRequest(), v1.Placement()))


def test_the_page_says_where_when_and_by_what_it_was_made_and_what_is_warned_of() -> None:
    request, placement = an_answer()
    placement.request_digest = "sha256:abc"
    text = page(
        request,
        placement,
        origin="a.yaml, <b>.yaml",
        made=datetime(2026, 11, 22, 10, 30, tzinfo=UTC),
        warnings=["Pod ml/a: <script> is not known"],
    )
    told = " ".join(read(text).text)
    assert "from a.yaml, <b>.yaml" in told
    assert "2026-11-22 10:30 UTC" in told
    assert f"placementctl {__version__}" in told
    assert "sha256:abc" in told
    assert "Pod ml/a: <script> is not known" in told
    assert "script" not in read(text).tags
    assert "Warnings" not in " ".join(read(page(request, placement)).text)


def test_each_gang_has_a_colour_of_its_own_also_beyond_the_palette() -> None:
    assert len({colour(number) for number in range(100)}) == 100
    nodes = [node(f"n{i}", gpus=4) for i in range(30)]
    gangs = [gang(f"g{i}", pods=1, gpus=4) for i in range(30)]
    request = question(nodes, gangs)
    text = page(request, reply(request, {f"g{i}": f"n{i}" for i in range(30)}))
    assert ".g29 { background: " in text
    assert 'class="key g29"' in text


def test_nothing_is_cut_off_when_it_is_printed() -> None:
    request, placement = an_answer()
    printed = page(request, placement).partition("@media print")[2]
    assert ".scroll { overflow: visible; }" in printed
