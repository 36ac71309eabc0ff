"""Moves that free domains, as a shell script of evictions.

It may be run again: a pod that is not where the plan saw it is left alone, and one that its
disruption budget protects is waited for. Where successors run is for the scheduler of the
pods; the freed domains are closed for them.
"""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import Final

from placement.cli.options.option_values import Freeing
from placement.cli.words import namespaced, node_name, printable
from placement.v1 import ComputeRepackingResponse

#: What every script begins with, below the line that says what it frees.
_EVICT: Final = """\
set -eu

evict() { # namespace, pod, node
  node=$(kubectl get pod --namespace "$1" "$2" --ignore-not-found -o 'jsonpath={.spec.nodeName}')
  if [ "$node" != "$3" ]; then
    echo "$1/$2 is no longer on $3 and is left alone" >&2
    return
  fi
  body='{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"namespace":"%s","name":"%s"}}'
  until said=$(printf "$body" "$1" "$2" |
    kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f - 2>&1); do
    case $said in
      *TooManyRequests*) echo "$1/$2 waits for its disruption budget" >&2; sleep 5 ;;
      *NotFound*) echo "$1/$2 is no longer there" >&2; return ;;
      *) echo "$said" >&2; exit 1 ;;
    esac
  done
}

"""


def as_script(asked: Freeing, found: ComputeRepackingResponse) -> str:
    """The script; between two steps it waits for Enter."""
    # A line break in a label would end the comment.
    freed = printable(", ".join(found.freed)) or "nothing"
    lines = ["#!/bin/sh", f"# Frees {freed} ({printable(asked.level)}).", _EVICT.rstrip("\n"), ""]
    selectors = [shlex.quote(f"{asked.level}={domain}") for domain in found.freed]
    lines += [f"kubectl cordon --selector {selector}" for selector in selectors]
    for step, moves in groupby(found.moves, key=lambda move: move.step):
        if step > 1:
            lines.append(
                f"printf 'step {step - 1} is done when its pods run again; Enter: '; read -r _"
            )
        lines += ["", f"# step {step}"]
        for move in moves:
            namespace, pod = namespaced(move.pod)
            words = map(shlex.quote, (namespace, pod, node_name(move.from_node)))
            lines.append(f"evict {' '.join(words)} # to {node_name(move.to_node)}")
    lines += ["", "# When the domains may be used again:"]
    lines += [f"# kubectl uncordon --selector {printable(selector)}" for selector in selectors]
    return "".join(f"{line}\n" for line in lines)
