"""Every error has its status, and the client reads from it what the service wrote."""

from __future__ import annotations

import pytest
from google.rpc import code_pb2

from placement import errors as client
from placement.v1 import ErrorReason
from placement_service.api import status
from placement_service.entities import errors
from placement_service.entities.errors import PlacementError, Violation

VIOLATION = Violation("gangs[0].name", "must have a name")

ERRORS: tuple[tuple[PlacementError, type[client.PlacementError], dict[str, object]], ...] = (
    (errors.InvalidRequest([VIOLATION], 3), client.InvalidRequestError, {"violation_count": 3}),
    (
        errors.Busy(maximum_pending=4, retry_after_seconds=1.5),
        client.BusyError,
        {"retry_after": 1.5},
    ),
    (errors.Draining(), client.DrainingError, {}),
    (errors.DeadlineTooShort(elapsed_seconds=0.031), client.DeadlineTooShortError, {}),
    (errors.Internal(dump="d.json"), client.InternalError, {"dump": "d.json"}),
    (errors.SnapshotUnknown("sha256:0"), client.SnapshotUnknownError, {"digest": "sha256:0"}),
    (errors.NotArrived(seconds=20), client.DeadlineTooShortError, {}),
)


@pytest.mark.parametrize(
    ("error", "want_kind", "want"), ERRORS, ids=lambda value: type(value).__name__
)
def test_the_client_reads_what_the_service_wrote(
    error: PlacementError, want_kind: type[client.PlacementError], want: dict[str, object]
) -> None:
    there = client.from_status(status.to_status(error))
    assert type(there) is want_kind
    assert {name: getattr(there, name) for name in want} == want


def test_violations_arrive_with_field_and_description() -> None:
    there = client.from_status(status.to_status(ERRORS[0][0]))
    assert isinstance(there, client.InvalidRequestError)
    assert [(v.field, v.description) for v in there.violations] == [
        (VIOLATION.field, VIOLATION.description)
    ]


def test_every_reason_of_the_api_has_an_error_and_a_code() -> None:
    api = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118
    assert {kind.reason for kind in status.CODES} == api - {"UNSPECIFIED"}
    assert set(status.CODES) == {type(error) for error, _, _ in ERRORS}


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (ERRORS[0][0], {"violation_count": "3"}),
        (ERRORS[1][0], {"maximum_pending": "4"}),
        (ERRORS[2][0], {}),
        (ERRORS[3][0], {"elapsed_ms": "31"}),
        (ERRORS[4][0], {"dump": "d.json"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_metadata_has_the_documented_keys(error: PlacementError, want: dict[str, str]) -> None:
    assert dict(error.metadata) == want


def test_violations_stay_within_what_trailers_hold() -> None:
    many = [Violation("f" * 100, "d" * 100) for _ in range(100)]
    there = status.to_status(errors.InvalidRequest(many, 100))
    assert there.code == code_pb2.INVALID_ARGUMENT
    assert there.ByteSize() * 4 / 3 < 8 * 1024


def test_one_violation_is_listed_however_long() -> None:
    there = status.to_status(errors.InvalidRequest([Violation("f" * 6000, "d")]))
    error = client.from_status(there)
    assert isinstance(error, client.InvalidRequestError)
    assert len(error.violations) == 1
