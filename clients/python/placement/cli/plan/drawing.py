"""The cluster drawn in the terminal, with the gangs in it.

Domains are boxes, the narrowest ones are rows of cells. When everything fits,
a cell is a node drawn GPU by GPU; else a node is one letter. A picture that
would be too long folds the domains that no gang of the request uses into one
line that says what is in them, so thousands of nodes stay readable.

      ╭─ block b0 ────────────── 72 GPUs, 12 free ─╮
      │ r0 AAAAAAAAA   r1 BBBBBb···                 │
      ╰────────────────────────────────────────────╯

Pure: picture and width in, text out. Colours help, but no information is in colours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from rich.cells import cell_len
from rich.text import Text

from placement.cli.colours import INK, colour
from placement.cli.plan.picture import (
    SPLIT,
    Domain,
    Picture,
    Spot,
    contents,
    folded,
    rooms,
    title,
)
from placement.cli.plan.summary import GangSummary, Summary
from placement.cli.words import plural, shorten

_T = TypeVar("_T")

FREE = "·"
IN_USE = "▒"
PARTLY_IN_USE = "░"
CLOSED = "×"
SEVERAL = "&"

#: A picture with more lines than this folds what no gang uses.
MOST_LINES = 40

#: Up to so many lines, domains stand under each other rather than side by side.
SHORT = 16

#: More GPUs on a node, or pods on a node without GPUs, are not drawn one by one.
MOST_GPUS = 16
MOST_PODS = 8

#: The legend names at most so many gangs; the table names all.
MOST_NAMES = 36

LONGEST_LABEL = 18

#: Longer names of levels are not repeated in front of nodes that lack the label.
SHORT_LEVEL = 6

GAP = "   "

#: Border and padding of a box, left and right together.
FRAME = 4


def draw(picture: Picture, summary: Summary, *, width: int) -> Text:
    """The picture in so many columns, with its legend."""
    pen = _close_up(picture, summary, width)
    if pen is None:
        pen = _Pen(summary, by_gpu=False)
        lines = _lay_out(picture, pen, width, fold=False)
        if len(lines) > MOST_LINES:
            lines = _lay_out(picture, pen, width, fold=True)
    else:
        lines = _lay_out(picture, pen, width, fold=False)
    return Text("\n").join([*lines, *_legend(picture, pen, lines, width)])


def _close_up(picture: Picture, summary: Summary, width: int) -> _Pen | None:
    """A pen that draws GPU by GPU, if that can be true and fits."""
    spots = picture.root.spots
    if not any(s.gpus > 1 or sum(t.new + t.before for t in s.seats) > 1 for s in spots):
        return None
    if any(s.gpus > MOST_GPUS or not _is_known(s) for s in spots):
        return None
    pen = _Pen(summary, by_gpu=True)
    leaves = _leaves(picture.root)
    labels = max(cell_len(_label(d, picture)) for d in leaves)
    widest = max(_line_width(pen.cells(d), pen) for d in leaves)
    if labels + 1 + widest > width - FRAME and picture.levels:
        return None
    return pen if len(_lay_out(picture, pen, width, fold=False)) <= MOST_LINES else None


def _is_known(spot: Spot) -> bool:
    """Whether it is known of each GPU of the node which gang has it."""
    if not spot.gpus:
        return sum(s.new + s.before for s in spot.seats) <= MOST_PODS
    return all(s.gpus_before is not None for s in spot.seats) and (
        spot.before + spot.free + sum(s.gpus for s in spot.seats) == spot.gpus
    )


@dataclass(frozen=True, slots=True)
class _Pen:
    """Draws nodes: GPU by GPU, or one letter each."""

    summary: Summary
    by_gpu: bool

    @property
    def separator(self) -> str:
        return " " if self.by_gpu else ""

    def cells(self, domain: Domain) -> list[Text]:
        return [self.cell(spot) for spot in domain.spots]

    def cell(self, spot: Spot) -> Text:
        if not self.by_gpu:
            return self._letter(spot)
        return self._gpus(spot) if spot.gpus else self._pods(spot)

    def _gpus(self, spot: Spot) -> Text:
        text = Text()
        text.append(IN_USE * spot.before, style="dim")
        for seat in spot.seats:
            text.append_text(self._mark(seat.gang, times=seat.gpus))
        text.append((CLOSED if spot.closed else FREE) * spot.free, style="dim")
        without = [s for s in spot.seats if not s.gpus]
        if without:
            text.append("+", style="dim")
            for seat in without:
                text.append_text(self._mark(seat.gang, room=True))
        return text

    def _pods(self, spot: Spot) -> Text:
        if not spot.seats:
            return _empty(spot)
        text = Text()
        for seat in spot.seats:
            text.append_text(self._mark(seat.gang, times=seat.new + seat.before))
        if not spot.full:
            text.append(FREE, style="dim")
        return text

    def _letter(self, spot: Spot) -> Text:
        if not spot.seats:
            return _empty(spot)
        if len(spot.seats) > 1:
            return Text(SEVERAL, style="bold reverse" if spot.full else "bold")
        return self._mark(spot.seats[0].gang, room=not spot.full)

    def _mark(self, gang: int, *, times: int = 1, room: bool = False) -> Text:
        """The gang's letter; lower case and without ground when room is left."""
        summary = self.summary.gangs[gang]
        shade = colour(summary.number)
        mark = summary.mark.lower() if room else summary.mark
        return Text(mark * times, style=f"bold {shade}" if room else f"{INK} on {shade}")


def _empty(spot: Spot) -> Text:
    """A node on which no gang of the request sits."""
    if spot.closed:
        return Text(CLOSED, style="dim red")
    if not spot.busy:
        return Text(FREE, style="dim")
    return Text(IN_USE if spot.full else PARTLY_IN_USE, style="dim")


def _leaves(domain: Domain) -> list[Domain]:
    """The narrowest domains."""
    if not domain.inner:
        return [domain]
    return [leaf for inner in domain.inner for leaf in _leaves(inner)]


def _label(domain: Domain, picture: Picture) -> str:
    """The domain's value in the row of its cells, shortened in the middle."""
    if not picture.levels:
        return ""
    if not domain.value:
        level = picture.level_names[-1]
        return f"no {level}" if len(level) <= SHORT_LEVEL else "none"
    return shorten(domain.value, LONGEST_LABEL) + SPLIT * domain.split


def _line_width(cells: Sequence[Text], pen: _Pen) -> int:
    return sum(c.cell_len for c in cells) + len(pen.separator) * (len(cells) - 1)


# --- rows of cells, boxes, columns ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all rows share, so that columns line up over all boxes."""

    labels: int
    cells: int

    @property
    def width(self) -> int:
        return self.labels + bool(self.labels) + self.cells


def _lay_out(picture: Picture, pen: _Pen, width: int, *, fold: bool) -> list[Text]:
    """All boxes: a row per domain while that is short, else in as few lines as possible."""
    inside = width - FRAME - 2 * (len(picture.levels) > 2)
    tries = [
        _boxes_in_columns(_boxes(picture, pen, frame, across, fold=fold), width)
        for frame in _frames(picture, pen, inside, fold=fold)
        for across in range(1, max(1, (inside + len(GAP)) // (frame.width + len(GAP))) + 1)
    ]
    lines = min(tries, key=lambda lines: max(len(lines), SHORT))
    if fold:
        lines = [*lines, *_folded_boxes(picture)]
    return lines


def _frames(picture: Picture, pen: _Pen, inside: int, *, fold: bool) -> list[_Frame]:
    """Frames worth trying: the longest row unbroken, or only the usual ones."""
    leaves = _leaves(picture.root)
    leaves = [d for d in leaves if d.touched or not fold] or leaves
    labels = max(cell_len(_label(d, picture)) for d in leaves)
    widths = [_line_width(pen.cells(d), pen) for d in leaves]
    # A domain that is far larger than the others may wrap instead of stretching all.
    usual = max(w for w in widths if w <= 2 * median(widths))
    single = max(c.cell_len for d in leaves for c in pen.cells(d))
    most = inside - labels - bool(labels)
    cells = dict.fromkeys(max(single, min(w, most)) for w in (max(widths), usual))
    return [_Frame(labels, w) for w in cells]


def _boxes(
    picture: Picture, pen: _Pen, frame: _Frame, across: int, *, fold: bool
) -> list[list[Text]]:
    """One box per broad domain; a single one when there is but one level."""
    root, names = picture.root, picture.level_names
    if len(names) < 2:
        return [_box(rooms(picture), root, _rows(root, picture, pen, frame, across, fold=fold))]
    drawn = [d for d in root.inner if d.touched or not fold]
    return [
        _box(title(d, names[0]), d, _rows(d, picture, pen, frame, across, fold=fold)) for d in drawn
    ]


def _rows(
    domain: Domain, picture: Picture, pen: _Pen, frame: _Frame, across: int, *, fold: bool
) -> list[Text]:
    """What stands in a box: rows of the narrowest domains, under headings."""
    if domain.inner and domain.inner[0].inner:
        lines = []
        level = picture.level_names[-2]
        for middle in domain.inner:
            if fold and not middle.touched:
                continue
            lines.append(Text.assemble((title(middle, level), "bold"), " ", ("─", "dim")))
            rows = _rows(middle, picture, pen, frame, across, fold=fold)
            lines += [Text("  ").append_text(row) for row in rows]
        if fold:
            lines += _folded([d for d in domain.inner if not d.touched], level)
        return lines
    leaves = domain.inner or (domain,)
    drawn = [d for d in leaves if d.touched or not fold or not picture.levels]
    blocks = [_block(d, picture, pen, frame) for d in drawn]
    lines = []
    for row in _batched(blocks, across):
        for height in range(max(len(b) for b in row)):
            parts = [b[height] if height < len(b) else Text(" " * frame.width) for b in row]
            lines.append(Text(GAP).join(parts))
    if fold and picture.levels:
        lines += _folded([d for d in leaves if not d.touched], picture.level_names[-1])
    return lines


def _batched(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _block(domain: Domain, picture: Picture, pen: _Pen, frame: _Frame) -> list[Text]:
    """The cells of one domain, wrapped, with its label in front."""
    rows: list[Text] = []
    for cell in pen.cells(domain):
        if rows and rows[-1].cell_len + len(pen.separator) + cell.cell_len <= frame.cells:
            rows[-1].append(pen.separator)
        else:
            rows.append(Text())
        rows[-1].append_text(cell)
    label = _label(domain, picture)
    lines = []
    for index, row in enumerate(rows):
        line = Text()
        if frame.labels:
            front = label if not index else ""
            line.append(front + " " * (frame.labels - cell_len(front) + 1), style="bold")
        line.append_text(row)
        line.append(" " * (frame.width - line.cell_len))
        lines.append(line)
    return lines


def _box(name: str, domain: Domain, lines: list[Text]) -> list[Text]:
    """Lines in a box with its name above left and the contents above right."""
    inside = contents(domain.spots)
    inner = max([*(line.cell_len for line in lines), cell_len(name) + cell_len(inside) + 5])
    rule = "─" * (inner - cell_len(name) - cell_len(inside) - 4)
    top = Text.assemble(
        ("╭─ ", "dim"), (name, "bold"), (f" {rule} ", "dim"), inside, (" ─╮", "dim")
    )
    body = [
        Text.assemble(("│ ", "dim"), line, " " * (inner - line.cell_len), (" │", "dim"))
        for line in lines
    ]
    return [top, *body, Text(f"╰{'─' * (inner + 2)}╯", style="dim")]


def _boxes_in_columns(boxes: list[list[Text]], width: int) -> list[Text]:
    """Boxes side by side where the width allows it."""
    if not boxes:
        return []
    widest = max(box[0].cell_len for box in boxes)
    lines = []
    for row in _batched(boxes, max(1, (width + 1) // (widest + 1))):
        for height in range(max(len(box) for box in row)):
            line = Text()
            for box in row:
                part = box[height] if height < len(box) else Text()
                line.append_text(part)
                line.append(" " * (widest + 1 - part.cell_len))
            line.rstrip()
            lines.append(line)
    return lines


# --- what is folded -------------------------------------------------------------------------


def _folded_boxes(picture: Picture) -> list[Text]:
    if len(picture.levels) < 2:
        return []
    untouched = [d for d in picture.root.inner if not d.touched]
    return _folded(untouched, picture.level_names[0])


def _folded(domains: Sequence[Domain], level: str) -> list[Text]:
    return [Text(f"+ {line}", style="dim") for line in folded(domains, level)]


# --- legend ---------------------------------------------------------------------------------


def _legend(picture: Picture, pen: _Pen, lines: Iterable[Text], width: int) -> list[Text]:
    """Names of the gangs, then the signs that occur in the drawing."""
    gangs = [g for g in pen.summary.gangs if g.mark]
    if len(gangs) > MOST_NAMES:
        again = ", letters come again" if pen.summary.marks_repeat else ""
        names = [Text(f"{len(gangs)} gangs, named in the table{again}")]
    else:
        names = [_name(gang, pen) for gang in gangs]
    drawn = "".join(line.plain for line in lines)
    signs = [
        Text.assemble((sign, "bold"), f" {words}")
        for sign, words, occurs in _signs(picture, pen)
        if occurs(drawn)
    ]
    return [*_flow(names, width), *_flow(signs, width)]


def _name(gang: GangSummary, pen: _Pen) -> Text:
    mark = Text(f" {gang.mark} ", style=f"{INK} on {colour(gang.number)}")
    return Text.assemble(mark, " ", pen.summary.title(gang))


def _signs(picture: Picture, pen: _Pen) -> list[tuple[str, str, Callable[[str], bool]]]:
    spots = picture.root.spots
    narrow = picture.level_names[-1] if picture.levels else ""
    room = any(len(s.seats) == 1 and not s.full for s in spots)
    beside = any(s.gpus and not all(t.gpus for t in s.seats) for s in spots)
    cells = [s for s in spots if s.gpus]
    unit = "a GPU" if len(cells) == len(spots) else "a GPU, or a pod on a node without GPUs"
    unit = unit if cells else "a pod"
    broad = plural(picture.level_names[-2]) if len(picture.levels) > 1 else ""
    return [
        ("each letter", f"{unit if pen.by_gpu else 'a node'}", lambda _: bool(pen.summary.seats)),
        ("a", "leaves room on its node", lambda _: room and not pen.by_gpu),
        ("+a", "pods without GPUs", lambda _: beside and pen.by_gpu),
        (SEVERAL, "several gangs", lambda drawn: SEVERAL in drawn),
        (FREE, "free", lambda drawn: FREE in drawn),
        (PARTLY_IN_USE, "partly in use before", lambda drawn: PARTLY_IN_USE in drawn),
        (IN_USE, "in use before", lambda drawn: IN_USE in drawn),
        (CLOSED, "takes no pods", lambda drawn: CLOSED in drawn),
        (SPLIT, f"{narrow} lies in several {broad}", lambda drawn: SPLIT in drawn and bool(broad)),
    ]


def _flow(items: Iterable[Text], width: int) -> list[Text]:
    """Items side by side, as many in a line as fit."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(GAP) + item.cell_len <= width:
            lines[-1].append(GAP)
        else:
            lines.append(Text())
        lines[-1].append_text(item)
    return lines
