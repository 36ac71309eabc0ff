"""The status with which a call ends at the edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc
from google.rpc import status_pb2

from placement_service.api.status import to_status
from placement_service.entities.errors import PlacementError

_CODES = {code.value[0]: code for code in grpc.StatusCode}

#: A call of bytes, as gRPC hands it over.
Context = grpc.aio.ServicerContext[bytes, bytes]


class Refused(Exception):
    """The compute process answers with an error, ready to be sent."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


@asynccontextmanager
async def errors_as_status(context: Context) -> AsyncIterator[None]:
    """Ends the call with the status of an error that leaves the block."""
    status = None
    try:
        yield
    except PlacementError as error:
        status = to_status(error)
    except Refused as error:
        status = error.status
    # Only now: gRPC keeps what is raised here, and with it what led to it.
    if status is not None:
        await _abort(context, status)


async def _abort(context: Context, status: status_pb2.Status) -> NoReturn:
    details = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(grpc_code(status), status.message, details)
    raise AssertionError("gRPC ends the call")


def grpc_code(status: status_pb2.Status) -> grpc.StatusCode:
    return _CODES[status.code]
