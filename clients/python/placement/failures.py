"""What the error of a call means, with what its channel knows: gRPC says only that the time of a
call was up, also where there never was a connection."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Final

import grpc

from placement.errors import PlacementError, from_rpc_error, is_of_own_clock, not_reached

#: Seconds within which a channel tells its state; a thread of gRPC does.
_STATE_WAIT: Final = 1.0
_READY: Final = grpc.ChannelConnectivity.READY


def failure_on(channel: grpc.Channel, error: grpc.RpcError) -> PlacementError:
    """The error of a call on a channel."""
    failure = from_rpc_error(error)
    return not_reached() if is_of_own_clock(failure) and not _is_connected(channel) else failure


def async_failure_on(channel: grpc.aio.Channel, error: grpc.aio.AioRpcError) -> PlacementError:
    """The same on a channel of asyncio."""
    failure = from_rpc_error(error)
    connected = channel.get_state() is _READY
    return not_reached() if is_of_own_clock(failure) and not connected else failure


def _is_connected(channel: grpc.Channel) -> bool:
    """Whether there is a connection, or it cannot be found out."""
    states: SimpleQueue[grpc.ChannelConnectivity] = SimpleQueue()
    channel.subscribe(states.put)
    try:
        return states.get(timeout=_STATE_WAIT) is _READY
    except Empty:
        return True
    finally:
        channel.unsubscribe(states.put)
