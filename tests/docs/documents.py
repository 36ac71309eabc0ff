"""The documents as blocks of code, and what each of them should show.

Readers copy blocks, so blocks are run. A comment right above a block says what is special about it:

    not run: <why>   a command or script that cannot run here
    output           what the block before prints; durations do not count
    output of: <cmd> what the command prints; of a plan, which of equal optima it is does not count
    request, answer  a question in proto JSON, and the answer to it; statistics do not count
    reason: <CODE>   an example of that reason, as the service words it
    file: <path>     that file of the repository, whole

``python -m tests.docs`` renews everything that is an output of something.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from placement.client import PlacementClient
from placement.v1 import ComputePlacementRequest
from tests.docs.reasons import example

ROOT = Path(__file__).resolve().parents[2]

#: Documents whose blocks are run.
GUIDES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
#: Documents whose links must lead somewhere.
DOCUMENTS = (*GUIDES, *(ROOT / name / "README.md" for name in ("bench", "deploy", "examples")))

#: Where the documents say a server listens.
DOCUMENTED_ADDRESS = "localhost:50051"

#: What the documents show is the whole answer, for which a busy machine may need longer than
#: their readers would wait: so long instead, for scripts, the command and requests.
PATIENT = 60
DOCUMENTED_LIMIT, PATIENT_LIMIT = "limit.FromSeconds(10)", f"limit.FromSeconds({PATIENT})"

#: Where no output is shown, it is enough that there is one.
HURRIED = 2
PLAN_LIMIT = 'if [ "$1" = plan ]; then shift; set -- plan --time-limit "${LIMIT}s" "$@"; fi'

#: Longest line of an answer.
WIDTH = 140

LANGUAGES = {"go", "json", "proto", "python", "sh", "text", "yaml"}

_COMMENT = re.compile(r"<!-- (.*) -->")
_FENCE = re.compile(r"( *)```(\w*)\s*")
_DURATION = re.compile(r"\b\d+(\.\d+)? m?s\b")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its first line of text, counted from 0."""

    file: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line + 1}"

    @property
    def is_derived(self) -> bool:
        """Whether the text is an output of something, and can be renewed."""
        return self.mark == "answer" or self.mark.startswith(("output", "reason:"))

    @property
    def is_runnable(self) -> bool:
        runs = self.language in ("sh", "python") and not self.is_derived
        return runs and not self.mark.startswith("not run:")


def blocks(file: Path) -> list[Block]:
    """The blocks of a document in order."""
    found: list[Block] = []
    mark, start, language, indent = "", -1, "", ""
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if start >= 0:
            if fence and not fence[2]:
                text = "\n".join(x.removeprefix(indent) for x in lines[start:number])
                found.append(Block(file, start, language, text, mark))
                mark, start = "", -1
        elif fence:
            indent, language, start = fence[1], fence[2], number + 1
        elif line.strip():
            comment = _COMMENT.fullmatch(line.strip())
            mark = comment[1] if comment else ""
    assert start < 0, f"{file}: a block is not closed"
    return found


def derived(file: Path) -> Iterator[tuple[Block | None, Block]]:
    """Each derived block with the block that it comes from, if any."""
    before: Block | None = None
    for block in blocks(file):
        if block.is_derived:
            yield before, block
        else:
            before = block


class Runner:
    """Does what blocks say, in the root of the repository, against a running server."""

    def __init__(self, address: str, folder: Path, placementctl: Sequence[str]) -> None:
        """`folder` gets the commands that an installation would put on the path, and stands in
        for ``/tmp``, which others may use at the same time. `placementctl` starts the command."""
        self.address = address
        self._scratch = f"{folder}/placement-"
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")},
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        _executable(folder / "placementctl", f'{PLAN_LIMIT}\nexec {shlex.join(placementctl)} "$@"')
        for name, options in (("placement-service", "-m placement_service"), ("python", "")):
            _executable(folder / name, f'exec "{sys.executable}" {options} "$@"')

    def run(self, block: Block) -> None:
        """Do what a block says, without waiting for the best answers."""
        text = re.sub(r"--time-limit \d+s", f"--time-limit {HURRIED}s", block.text)
        self.output(replace(block, text=text), limit=HURRIED)

    def output(self, block: Block, limit: int = PATIENT) -> str:
        """What a block prints; plans without a limit have this one. An AssertionError says how it
        failed.
        """
        if block.language == "python":
            text = block.text.replace(DOCUMENTED_LIMIT, PATIENT_LIMIT)
            return self._run([sys.executable, "-c", text])
        return self._shell(block.text, limit)

    def _shell(self, command: str, limit: int = PATIENT) -> str:
        return self._run(["bash", "-euo", "pipefail", "-c", command], LIMIT=str(limit))

    def _run(self, words: Sequence[str], **environment: str) -> str:
        command = [
            word.replace(DOCUMENTED_ADDRESS, self.address).replace("/tmp/placement-", self._scratch)
            for word in words
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words[-1]}\n{done.stderr}"
        return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())

    def answer(self, request: Block) -> str:
        """The service's answer to a request in proto JSON."""
        question = json_format.Parse(request.text, ComputePlacementRequest())
        question.time_limit.FromSeconds(PATIENT)
        with PlacementClient(self.address, timeout=2 * PATIENT) as client:
            placement = client.compute(question)
        return compact(json_format.MessageToDict(placement))

    def renewed(self, source: Block | None, block: Block) -> str:
        """What a derived block should show."""
        if block.mark.startswith("reason:"):
            return example(block.mark.removeprefix("reason:").strip())
        if block.mark.startswith("output of:"):
            return self._shell(block.mark.removeprefix("output of:").strip())
        assert source is not None, f"{block} comes from nothing"
        return self.answer(source) if block.mark == "answer" else self.output(source)


def essence(block: Block, text: str) -> Any:
    """The part of a derived block's text that must be the same on every machine."""
    match block.mark:
        case "answer":
            placement = json.loads(text)
            return {key: value for key, value in placement.items() if key != "stats"}
        case mark if " plan " in mark:
            return plan_essence(text)
        case _:
            return _DURATION.sub("# s", text)


def is_other(block: Block, text: str) -> bool:
    """Whether readers should be shown this text instead; durations are no reason."""
    if block.mark == "answer":
        return bool(essence(block, text) != essence(block, block.text))
    return _DURATION.sub("# s", text).split() != _DURATION.sub("# s", block.text).split()


_GANG = re.compile(
    r" *(\S )? *(?P<gang>\S+/\S+) +(?P<state>placed|partly|running|waiting)"
    r" +(?P<new>\d+) +(?P<pods>\d+/\d+) +(?P<min>\d+) +(?P<score>\S+)"
)
_TIER = re.compile(r"(?P<tier>admitted|extra|topology) +(?P<value>\S+) +(?P<bound>\S+)")
_RACK = re.compile(r"│ (?P<rack>\S+) (?P<nodes>.*) │")


def plan_essence(text: str) -> list[tuple[str, ...]]:
    """Who is placed, what the first three tiers are worth, and which racks are drawn.

    Where a gang sits is left out: there are equal optima, and the fourth tier has no proof.
    """
    found: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if gang := _GANG.match(line):
            found.append(gang.group("gang", "state", "new", "pods", "min", "score"))
        elif tier := _TIER.match(line):
            found.append(tier.groups())
        elif rack := _RACK.fullmatch(line):
            found.append((rack["rack"], str(len(rack["nodes"].split()))))
        elif " gangs placed, " in line:
            found.append((line,))
    return found


def compact(value: Any, indent: str = "", *, head: int = 0) -> str:
    """JSON for readers: what fits on a line stands on one. `head` is the width before it."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + head + len(line) < WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        parts = [compact(element, inner) for element in value]
        begin, end = "[]"
    else:
        parts = [
            f"{json.dumps(key)}: {compact(element, inner, head=len(key) + 4)}"
            for key, element in value.items()
        ]
        begin, end = "{}"
    body = ",\n".join(inner + part for part in parts)
    return f"{begin}\n{body}\n{indent}{end}"


def _executable(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
