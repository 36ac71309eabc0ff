"""Asks a running service where the gangs of a request go.

python -m placement_service &
python examples/plan.py localhost:50051 examples/request.json
"""

import sys
from pathlib import Path

from google.protobuf import json_format

from placement.client import PlacementClient
from placement.errors import PlacementError
from placement.v1 import ComputePlacementRequest, Progress


def main(address: str, file: str) -> None:
    request = json_format.Parse(Path(file).read_text(), ComputePlacementRequest())
    with PlacementClient(address) as client, client.stream(request) as events:
        for event in events:
            if isinstance(event, Progress):
                print(f"{event.phase}: gangs placed so far: {event.placed_gang_count}")
                continue
            for binding in event.bindings:
                print(f"{binding.pod} -> {binding.node}")
            for gang in event.gangs:
                if not gang.placed:
                    why = "; ".join(reason.message.rstrip(".") for reason in gang.reasons)
                    print(f"{gang.name} waits: {why}")
            print(event.termination.detail)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: plan.py HOST:PORT FILE")
    try:
        main(*sys.argv[1:])
    except PlacementError as error:
        sys.exit(f"no answer: {error}")
