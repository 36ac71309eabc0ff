"""The placement service's library for users.

- `placement.client`: ask the service from Python, with deadlines, retries and typed errors.
- `placement.aio`: the same for asyncio.
- `placement.errors`: what a call can fail with.
- `placement.v1`: the messages, as in ``proto/placement/v1``.
- `placement.testing`: the real service, or a scripted one, inside a test.
- `placement.kubernetes`: Kubernetes objects to a request.
- `placement.objects`: sessions that send Kubernetes objects, which the service translates.
- `placement.planning`: requests and answers compared, changed, and simulated over time.
- `placement.cli`: the command ``placementctl``.

Nothing is imported here, so that each part costs only what it needs::

    from placement import v1
    from placement.client import PlacementClient

    with PlacementClient("localhost:50051") as client:
        placement = client.compute(v1.ComputePlacementRequest(snapshot=snapshot, gangs=gangs))
"""

#: Of the library, the command line and the service alike.
__version__ = "0.1.0"
