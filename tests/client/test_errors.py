"""Errors of the client and what goes over the wire are two forms of one thing."""

from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, LocalizedMessage
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import (
    BusyError,
    DeadlineTooShortError,
    DrainingError,
    InternalError,
    InvalidRequestError,
    PlacementError,
    SnapshotUnknownError,
    UnavailableError,
    Violation,
    from_rpc_error,
    from_status,
    to_status,
)
from placement.v1 import ErrorReason

EXAMPLES: tuple[PlacementError, ...] = (
    InvalidRequestError("2 violations", violations=[Violation("gangs[0].name", "must be set")]),
    BusyError("16 wait already", retry_after=1.5, maximum_pending=16),
    DrainingError("shutting down"),
    DeadlineTooShortError("no answer yet", elapsed=0.031),
    InternalError("a defect", dump="20261121T101500-1f2e3d4c.json"),
    SnapshotUnknownError("not held", digest="sha256:1f2e"),
)

texts = st.text(max_size=20)
seconds = st.integers(0, 10**9).map(lambda ms: ms / 1000)
counts = st.integers(0, 2**31)
violations = st.lists(st.builds(Violation, texts, texts), max_size=3)
errors = st.one_of(
    st.builds(InvalidRequestError, texts, violations=violations, violation_count=counts),
    st.builds(
        BusyError, texts, retry_after=st.none() | seconds, maximum_pending=st.none() | counts
    ),
    st.builds(UnavailableError, texts),
    st.builds(DrainingError, texts),
    st.builds(DeadlineTooShortError, texts, elapsed=st.none() | seconds),
    st.builds(InternalError, texts, dump=texts),
    st.builds(SnapshotUnknownError, texts, digest=texts),
    st.builds(
        PlacementError,
        texts,
        code=st.sampled_from(
            sorted(
                set(grpc.StatusCode)
                - {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED},
                key=str,
            )
        ),
    ),
)


@given(errors)
def test_every_error_survives_the_wire(error: PlacementError) -> None:
    returned = from_status(Status.FromString(to_status(error).SerializeToString()))
    assert (type(returned), vars(returned)) == (type(error), vars(error))


def test_every_reason_has_a_class_of_its_own() -> None:
    assert [type(error).reason for error in EXAMPLES] == ErrorReason.values()[1:]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_the_status_carries_what_the_proto_documents(error: PlacementError) -> None:
    """The domain, the reason without its prefix, and the metadata keys of error_reason.proto."""
    want_metadata = {
        InvalidRequestError: {"violation_count": "1"},
        BusyError: {"maximum_pending": "16"},
        DrainingError: {},
        DeadlineTooShortError: {"elapsed_ms": "31"},
        InternalError: {"dump": "20261121T101500-1f2e3d4c.json"},
        SnapshotUnknownError: {"digest": "sha256:1f2e"},
    }
    info = ErrorInfo()
    assert to_status(error).details[0].Unpack(info)
    assert f"ERROR_REASON_{info.reason}" == ErrorReason.Name(error.reason)
    assert info.domain == "placement.v1"
    assert dict(info.metadata) == want_metadata[type(error)]


def test_a_reason_of_a_newer_server_is_told_by_its_code() -> None:
    status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message="gone fishing")
    status.details.add().Pack(ErrorInfo(reason="FISHING", domain="placement.v1"))
    error = from_status(status)
    assert type(error) is UnavailableError
    assert error.message == "gone fishing"


def test_a_reason_of_another_domain_is_not_ours() -> None:
    status = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="quota")
    status.details.add().Pack(ErrorInfo(reason="BUSY", domain="cloud.example"))
    error = from_status(status)
    assert type(error) is PlacementError
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_details_that_mean_nothing_to_us_are_passed_over() -> None:
    status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0])
    status.details.add().Pack(LocalizedMessage(locale="en", message="closing"))
    status.details.add().Pack(ErrorInfo(reason="DRAINING", domain="placement.v1"))
    assert type(from_status(status)) is DrainingError


def test_metadata_that_is_no_number_is_unknown() -> None:
    status = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    status.details.add().Pack(
        ErrorInfo(reason="BUSY", domain="placement.v1", metadata={"maximum_pending": "many"})
    )
    error = from_status(status)
    assert isinstance(error, BusyError)
    assert (error.maximum_pending, error.retry_after) == (None, None)


def test_an_error_that_is_no_call_keeps_its_words() -> None:
    """Interceptors may raise a bare RpcError."""
    error = from_rpc_error(grpc.RpcError("no token"))
    assert type(error) is PlacementError
    assert error.message == "no token"


def test_an_invalid_request_prints_every_violation_on_a_line() -> None:
    error = InvalidRequestError(
        "gangs[0].name: must be set (and 4 more)",
        violations=[Violation("gangs[0].name", "must be set"), Violation("a", "b")],
        violation_count=5,
    )
    assert str(error).splitlines() == [
        "gangs[0].name: must be set",
        "a: b",
        "and 3 more",
    ]


def test_an_invalid_request_without_a_list_prints_its_message() -> None:
    assert str(InvalidRequestError("no snapshot")) == "no snapshot"
