"""The protos keep their conventions: what buf checks, and what only the descriptors show."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import Default

from placement import v1
from placement.kubernetes import v1 as kubernetes_v1

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).parent / "buf"

FILES: tuple[FileDescriptor, ...] = tuple(
    Default().FindFileByName(str(path.relative_to(ROOT / "proto")))
    for path in sorted((ROOT / "proto").rglob("*.proto"))
)


def _messages() -> Iterator[Descriptor]:
    waiting = [m for file in FILES for m in file.message_types_by_name.values()]
    while waiting:
        message = waiting.pop()
        waiting += [m for m in message.nested_types if not m.GetOptions().map_entry]
        yield message


def _enums() -> Iterator[EnumDescriptor]:
    for file in FILES:
        yield from file.enum_types_by_name.values()
    for message in _messages():
        yield from message.enum_types


MESSAGES = sorted(_messages(), key=lambda m: m.full_name)
ENUMS = sorted(_enums(), key=lambda e: e.full_name)
FIELDS = [field for message in MESSAGES for field in message.fields]


def _shouted(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


@pytest.mark.parametrize("command", [["lint"], ["format", "--diff", "--exit-code"]], ids=" ".join)
def test_buf_has_nothing_to_say(command: list[str]) -> None:
    """Lint asks for a comment on every message, field, enum, value, service and RPC."""
    if not BUF.exists():
        pytest.skip("buf is not installed beside this Python")
    run = subprocess.run(
        [BUF, *command, "proto"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


@pytest.mark.parametrize("enum", ENUMS, ids=lambda e: e.full_name)
def test_the_zero_of_an_enum_says_unspecified(enum: EnumDescriptor) -> None:
    zero = enum.values_by_number[0]
    assert zero.name == f"{_shouted(enum.name)}_UNSPECIFIED"


@pytest.mark.parametrize("enum", ENUMS, ids=lambda e: e.full_name)
def test_enum_values_carry_the_name_of_their_enum(enum: EnumDescriptor) -> None:
    prefix = f"{_shouted(enum.name)}_"
    assert [v.name for v in enum.values if not v.name.startswith(prefix)] == []


@pytest.mark.parametrize("enum", ENUMS, ids=lambda e: e.full_name)
def test_enum_values_are_numbered_without_holes(enum: EnumDescriptor) -> None:
    """A hole would be a value that was removed and not reserved."""
    assert sorted(enum.values_by_number) == list(range(len(enum.values)))


def test_fields_are_lower_snake_case() -> None:
    assert [f.full_name for f in FIELDS if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", f.name)] == []


def test_numbers_are_signed_and_fractions_double() -> None:
    """Unsigned numbers wrap in some languages, and a float cannot hold a sum of GPUs."""
    unwelcome = {
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_FLOAT,
    }
    assert [f.full_name for f in FIELDS if f.type in unwelcome] == []


def test_only_numbers_are_optional() -> None:
    """Where zero means something absence must show; other fields are simply empty."""
    numbers = {
        FieldDescriptor.CPPTYPE_DOUBLE,
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
    }
    optional = [f for f in FIELDS if f.containing_oneof and len(f.containing_oneof.fields) == 1]
    assert optional
    assert [f.full_name for f in optional if f.cpp_type not in numbers] == []


def test_fields_are_declared_in_the_order_of_their_numbers() -> None:
    for message in MESSAGES:
        numbers = [field.number for field in message.fields]
        assert numbers == sorted(numbers), message.full_name


def test_files_are_lower_snake_case_and_none_is_named_after_the_version() -> None:
    for file in FILES:
        assert re.fullmatch(r"placement(/kubernetes)?/v1/[a-z]+(_[a-z]+)*\.proto", file.name)
        assert not file.name.endswith("/v1.proto")


def test_every_rpc_has_a_request_and_a_response_of_its_own() -> None:
    methods = [
        method
        for file in FILES
        for service in file.services_by_name.values()
        for method in service.methods
    ]
    assert methods
    for method in methods:
        assert method.input_type.name == f"{method.name}Request"
        assert method.output_type.name == f"{method.name}Response"


@pytest.mark.parametrize("package", [v1, kubernetes_v1], ids=lambda p: p.__name__)
def test_the_package_exports_every_message_and_every_enum(package: ModuleType) -> None:
    kinds = [kind for kind in (*MESSAGES, *ENUMS) if kind.containing_type is None]
    defined = {kind.name for kind in kinds if kind.file.package == package.__name__}
    assert defined
    assert set(package.__all__) == defined
