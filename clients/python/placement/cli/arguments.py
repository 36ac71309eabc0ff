"""The command's options: what they are called, what they accept, what they mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

DEFAULT_TIME_LIMIT = 10.0

OUTPUTS = ("table", "json", "yaml", "html")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)

#: The longest duration that the wire can say without rounding games.
_LONGEST = 24 * 3600.0

_DESCRIPTION = """\
Plan where gangs of GPU pods go, with a proof of how good the plan is.

Nothing is changed in any cluster: files, or what a cluster holds, in, answer out.
"""

_EXAMPLES = """\
examples:
  # What would happen to everything that waits in this cluster?
  kubectl get nodes,pods,podgangs,podcliquesets,clustertopologybindings,priorityclasses \\
    -A -o json | placementctl plan -f -

  # The same, read from the current cluster.
  placementctl plan --live

  # Would this PodCliqueSet fit? Nodes from one file, the workload from another.
  placementctl plan -f nodes.json my-model.yaml

  # The PodGangs and pods that Grove would create from it.
  placementctl expand -f my-model.yaml

  # Which gangs run in the current cluster, and why do the others wait?
  placementctl status
"""

_PLAN_EXAMPLES = """\
examples:
  placementctl plan -f cluster.json
  placementctl plan -f nodes/ gangs/ -o html > plan.html
  placementctl plan -f cluster.json --time-limit 1m30s -o json
  placementctl plan -f cluster.json --server localhost:50051
  placementctl plan --live --context prod --scheduler-name placement-service

exit status:
  0  an answer was computed; gangs may be unplaced, the answer says why
  2  the input or the arguments are wrong; every problem found is printed
  3  the service, or the cluster, could not answer
"""

_EXPAND_EXAMPLES = """\
examples:
  placementctl expand -f my-model.yaml
  placementctl expand -f my-model.yaml topology-binding.yaml | placementctl plan -f nodes.json -
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of one call. Wrong ones end the process with status 2."""
    options, unknown = _parser().parse_known_args(arguments)
    parser: argparse.ArgumentParser = options.parser
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command == "plan":
        if not options.live and (options.kubeconfig or options.context or options.scheduler_name):
            parser.error("--kubeconfig, --context and --scheduler-name go with --live")
        if not options.server and any((options.tls_ca, options.tls_certificate, options.tls_key)):
            parser.error("--tls-ca, --tls-certificate and --tls-key go with --server")
        if bool(options.tls_certificate) != bool(options.tls_key):
            parser.error("--tls-certificate and --tls-key belong together")
        if options.tls_key and not options.tls_ca:
            parser.error("--tls-certificate and --tls-key need --tls-ca")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placementctl",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_plan(commands)
    _add_expand(commands)
    _add_status(commands)
    return parser


def _add_plan(commands: Any) -> None:
    plan = commands.add_parser(
        "plan",
        help="compute where the pods of all waiting gangs go",
        description="Compute where the pods of all waiting gangs go.",
        epilog=_PLAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = plan.add_mutually_exclusive_group(required=True)
    _add_files(source, required=False)
    source.add_argument(
        "--live",
        action="store_true",
        help="plan what waits in the current cluster; it is only read",
    )
    _add_cluster(plan, only="with --live: ")
    plan.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default="",
        help="with --live: only pods of this scheduler (default: whoever's they are)",
    )
    plan.add_argument(
        "-o",
        "--output",
        choices=OUTPUTS,
        default="table",
        help="a drawing and a table (default), the answer as json or yaml, or an html page",
    )
    plan.add_argument(
        "--server",
        metavar="HOST:PORT",
        type=_address,
        help="ask this service; without it the service is started inside the command",
    )
    plan.add_argument(
        "--tls-ca",
        metavar="FILE",
        help="PEM file with the authorities of the service; turns on TLS",
    )
    plan.add_argument(
        "--tls-certificate", metavar="FILE", help="PEM file to show the service, for mutual TLS"
    )
    plan.add_argument("--tls-key", metavar="FILE", help="PEM file with the certificate's key")
    plan.add_argument(
        "--time-limit",
        metavar="DURATION",
        type=duration,
        default=DEFAULT_TIME_LIMIT,
        help="answer within this time, such as 500ms, 10s or 1m30s (default 10s)",
    )
    plan.add_argument(
        "--policy",
        metavar="FILE",
        help="YAML or JSON of placement.v1.Policy, such as 'deterministic: true'",
    )
    plan.set_defaults(parser=plan)


def _add_expand(commands: Any) -> None:
    expand = commands.add_parser(
        "expand",
        help="print the PodGangs and pods that Grove would create from PodCliqueSets",
        description="Print the PodGangs and pods that Grove would create from PodCliqueSets.",
        epilog=_EXPAND_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_files(expand)
    expand.set_defaults(parser=expand)


def _add_status(commands: Any) -> None:
    status = commands.add_parser(
        "status",
        help="show the gangs of the current cluster, and why some wait",
        description="Show the gangs of the current cluster, and why some wait.",
        allow_abbrev=False,
    )
    status.add_argument("-n", "--namespace", default="", help="only this namespace (default: all)")
    status.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="table or json"
    )
    _add_cluster(status)
    status.set_defaults(parser=status)


def _add_cluster(parser: argparse.ArgumentParser, *, only: str = "") -> None:
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"{only}how to reach the cluster (default: as kubectl does)",
    )
    parser.add_argument("--context", metavar="NAME", help=f"{only}context of the kubeconfig to use")


def _add_files(parser: Any, *, required: bool = True) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        metavar="FILE",
        action="extend",
        nargs="+",
        required=required,
        help="files or folders of Kubernetes objects in YAML or JSON, or - for standard input; "
        "may be repeated",
    )


def duration(text: str) -> float:
    """Seconds in a duration such as ``500ms``, ``10s`` or ``1m30s``."""
    if not _DURATION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms, 10s or 1m30s")
    total = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    if not 0.001 <= total <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1ms and 24h")
    return total


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address HOST:PORT")
    return text


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print("placementctl", version("placement-service"))
        parser.exit()
