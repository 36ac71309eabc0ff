"""The documents are true: what they tell to run runs, and prints what they show."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import yaml
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from pydantic_core import PydanticUndefined

from controller.runtime.metrics import Metrics
from controller.settings import Settings as ControllerSettings
from placement.testing import serve
from placement.v1 import ComputePlacementRequest, ErrorReason, ReasonCode
from placement_service.api.metrics import Metrics as ServiceMetrics
from placement_service.api.settings import Settings
from tests.cli.warm import warm
from tests.docs.documents import (
    DOCUMENTS,
    GUIDES,
    LANGUAGES,
    ROOT,
    Block,
    Runner,
    blocks,
    derived,
    essence,
    plan_essence,
)
from tests.waiting import LONG

BLOCKS = [block for file in GUIDES for block in blocks(file)]
DERIVED = [pair for file in GUIDES for pair in derived(file)]
#: Blocks whose output is shown are run for that.
RUNNABLE = [b for b in BLOCKS if b.is_runnable and b not in [source for source, _ in DERIVED]]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with serve(default_time_limit=LONG) as address, warm() as command:
        yield Runner(address, tmp_path_factory.mktemp("bin"), command)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_its_language(block: Block) -> None:
    assert block.language in LANGUAGES


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_can_be_parsed(block: Block) -> None:
    match block.language:
        case "json":
            json.loads(block.text)
        case "yaml":
            list(yaml.safe_load_all(block.text))
        case "python":
            compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.mark.startswith("file: ")], ids=str)
def test_a_file_is_shown_as_it_is(block: Block) -> None:
    assert block.text + "\n" == (ROOT / block.mark.removeprefix("file: ")).read_text()


@pytest.mark.parametrize("block", RUNNABLE, ids=str)
def test_a_block_runs(runner: Runner, block: Block) -> None:
    runner.run(block)


@pytest.mark.parametrize(("source", "block"), DERIVED, ids=str)
def test_an_output_is_fresh(runner: Runner, source: Block | None, block: Block) -> None:
    """After a change of what the documents show somebody has to run ``make docs``."""
    assert essence(block, block.text) == essence(block, runner.renewed(source, block))


def test_what_counts_of_a_plan_is_its_gangs_tiers_racks_and_verdict() -> None:
    (block,) = (b for b in BLOCKS if " plan " in b.mark and b.is_derived)
    found = plan_essence(block.text)
    assert ("research/full-rack-0", "waiting", "0", "0/18", "18", "–") in found
    assert ("b7.0", "18") in found
    assert [line[0] for line in found if len(line) == 3] == ["admitted", "extra", "topology"]
    assert found[-1][0].endswith("Proven optimal.")
    # 20 gangs, three tiers, the racks and the CPU nodes of two blocks, the verdict.
    assert len(found) == 20 + 3 + 2 * (8 + 1) + 1


# --- links ---------------------------------------------------------------------

_LINK = re.compile(r"""\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)\"""")


def _links(file: Path) -> set[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", file.read_text(), flags=re.DOTALL)
    return {a or b for a, b in _LINK.findall(text)}


def _anchors(file: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    return {
        "".join(
            c
            for c in heading.lower().replace(" ", "-")
            if c in "-_" or unicodedata.category(c)[0] in "LN"
        )
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    }


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda f: str(f.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    for link in _links(file):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


# --- nothing is left out ---------------------------------------------------------


def _rows(file: str) -> dict[str, list[str]]:
    """Rows of tables by the code in their first cell."""
    found = {}
    for line in (ROOT / file).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and cells[0].endswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_setting_is_documented_with_its_default() -> None:
    rows = _rows("docs/operations.md")
    for name, field in Settings.model_fields.items():
        is_fixed = field.default not in (None, PydanticUndefined)
        default = f"`{field.default}`" if is_fixed else ""
        assert rows[f"PLACEMENT_{name.upper()}"][0] == default, name
    documented = {r for r in rows if r.startswith("PLACEMENT_")}
    assert documented == {f"PLACEMENT_{name.upper()}" for name in Settings.model_fields}


def test_every_setting_of_the_controller_is_documented_with_its_default() -> None:
    rows = _rows("docs/controller.md")
    for name, field in ControllerSettings.model_fields.items():
        is_given = field.default not in (None, "", PydanticUndefined)
        assert rows[name][0] == (f"`{field.default}`" if is_given else ""), name


def test_every_metric_of_the_controller_is_documented() -> None:
    text = (ROOT / "docs/controller.md").read_text()
    for family in Metrics().registry.collect():
        if family.name.startswith("placement_controller_"):
            total = "_total" if family.type == "counter" else ""
            assert f"`{family.name.removeprefix('placement_controller_')}{total}" in text


def test_every_metric_of_the_service_is_documented() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    for family in ServiceMetrics().registry.collect():
        if family.name.startswith("placement_service_"):
            total = "_total" if family.type == "counter" else ""
            assert f"| `{family.name.removeprefix('placement_service_')}{total}` |" in text


def test_settings_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"PLACEMENT_[A-Z_]+[A-Z]", (ROOT / "README.md").read_text()))
    assert named
    # The last one is for tests.
    known = {*Settings.model_fields, "kills"}
    assert {n.removeprefix("PLACEMENT_").lower() for n in named} <= known


def test_every_reason_is_explained_by_an_example() -> None:
    shown = {
        b.mark.removeprefix("reason: ")
        for b in blocks(ROOT / "docs/explanations.md")
        if b.mark.startswith("reason:")
    }
    codes = {name.removeprefix("REASON_CODE_") for name in ReasonCode.keys()}  # noqa: SIM118
    # Nothing gives this reason yet.
    coming = {"CLAIM"}
    assert shown | coming == codes - {"UNSPECIFIED"}
    assert shown <= set(_rows("docs/explanations.md"))


def test_every_error_is_documented() -> None:
    codes = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118
    assert codes - {"UNSPECIFIED"} <= set(_rows("docs/api.md"))


# --- by reflection alone -----------------------------------------------------------


def test_a_tool_without_the_protos_asks_by_reflection(runner: Runner) -> None:
    """What the documented grpcurl command does: learn the messages, fill them from JSON, call."""
    with grpc.insecure_channel(runner.address) as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        service = pool.FindServiceByName("placement.v1.PlacementService")
        method = service.FindMethodByName("ComputePlacement")
        question = message_factory.GetMessageClass(method.input_type)()
        answer_class = message_factory.GetMessageClass(method.output_type)
        assert not isinstance(question, ComputePlacementRequest)
        json_format.Parse((ROOT / "examples/request.json").read_text(), question)
        call = channel.unary_unary(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_class.FromString,
        )
        answer = json_format.MessageToDict(call(question, timeout=LONG))
    assert [gang.get("placed", False) for gang in answer["placement"]["gangs"]] == [True, False]
