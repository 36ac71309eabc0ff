"""The JSON answer, letter by letter: scripts depend on it."""

from __future__ import annotations

import json

import pytest

from placement import v1
from placement.cli.plan.answer import answer
from placement.kubernetes import Problem


def a_placement() -> v1.Placement:
    placement = v1.Placement(
        revision="42",
        request_digest="sha256:0",
        bindings=[
            v1.Binding(
                pod="namespaces/ml/pods/serve-0-decode-0",
                uid="u-1",
                node="nodes/gpu-017",
                gang="namespaces/ml/podgangs/serve-0",
                group="serve-0-decode",
            )
        ],
        gangs=[
            v1.GangResult(
                name="namespaces/ml/podgangs/serve-0",
                placed=True,
                placement_score=1.0,
                scopes=[v1.ScopeUse(name="gang", level="rack", required=True, domains=["r1"])],
            ),
            v1.GangResult(
                name="namespaces/ml/podgangs/train-a",
                reasons=[
                    v1.Reason(
                        code=v1.ReasonCode.REASON_CODE_REQUIRED_DOMAIN_TOO_SMALL,
                        message="rack r7 has room for 3 of 4 pods of 8 nvidia.com/gpu",
                        level="rack",
                        domain="r7",
                        asked=4,
                        found=3,
                    )
                ],
            ),
        ],
        tiers=[
            v1.ObjectiveTier(name="admitted", value=96.0, bound=96.0),
            v1.ObjectiveTier(name="extra", value=2.0, bound=3.0),
            v1.ObjectiveTier(name="topology", value=1.002, minimize=True),
        ],
        termination=v1.Termination(
            reason=v1.TerminationReason.TERMINATION_REASON_FEASIBLE,
            limit=v1.TerminationLimit.TERMINATION_LIMIT_TIME,
            gap=0.5,
        ),
    )
    placement.stats.elapsed.FromMilliseconds(1250)
    return placement


def test_every_field_has_its_promised_name() -> None:
    assert answer(a_placement()) == {
        "bindings": [
            {
                "namespace": "ml",
                "pod": "serve-0-decode-0",
                "node": "gpu-017",
                "podGang": "serve-0",
                "podGroup": "serve-0-decode",
                "uid": "u-1",
            }
        ],
        "evictions": [],
        "podGangs": [
            {
                "namespace": "ml",
                "name": "serve-0",
                "placed": True,
                "placementScore": 1.0,
                "reasons": [],
                "scopes": [{"name": "gang", "level": "rack", "required": True, "domains": ["r1"]}],
            },
            {
                "namespace": "ml",
                "name": "train-a",
                "placed": False,
                "placementScore": None,
                "reasons": [
                    {
                        "code": "REQUIRED_DOMAIN_TOO_SMALL",
                        "message": "rack r7 has room for 3 of 4 pods of 8 nvidia.com/gpu",
                        "level": "rack",
                        "domain": "r7",
                        "asked": 4,
                        "found": 3,
                    }
                ],
                "scopes": [],
            },
        ],
        "termination": {"reason": "FEASIBLE", "gap": 0.5, "limit": "TIME"},
        "objective": [
            {"tier": "admitted", "value": 96, "bound": 96},
            {"tier": "extra", "value": 2, "bound": 3},
            {"tier": "topology", "value": 1.002, "bound": None},
        ],
        "warnings": [],
        "stats": {"elapsedSeconds": 1.25, "deterministic": False},
        "requestDigest": "sha256:0",
        "revision": "42",
    }


def test_whole_numbers_of_tiers_have_no_decimal_point() -> None:
    text = json.dumps(answer(a_placement()))
    assert '"value": 96, "bound": 96' in text


def test_nothing_to_say_is_said_with_empty_lists_and_null() -> None:
    placement = v1.Placement(
        termination=v1.Termination(reason=v1.TerminationReason.TERMINATION_REASON_OPTIMAL)
    )
    assert answer(placement) == {
        "bindings": [],
        "evictions": [],
        "podGangs": [],
        "termination": {"reason": "OPTIMAL", "gap": None},
        "objective": [],
        "warnings": [],
        "stats": {"elapsedSeconds": 0.0, "deterministic": False},
    }


def test_evictions_devices_and_reservations_have_their_promised_names() -> None:
    gang = "namespaces/ml/podgangs/batch"
    placement = v1.Placement(
        bindings=[
            v1.Binding(
                pod="namespaces/ml/pods/a-0",
                node="nodes/n1",
                gang="namespaces/ml/podgangs/a",
                group="w",
                devices=[2, 3],
                reservation="reservations/plan-1",
            )
        ],
        evictions=[
            v1.Eviction(
                pod="namespaces/ml/pods/b-0",
                gang=gang,
                node="nodes/n1",
                kind=v1.EvictionKind.EVICTION_KIND_PREEMPT,
                for_gang="namespaces/ml/podgangs/a",
                reason="lower priority",
            ),
            v1.Eviction(
                pod="namespaces/ml/pods/b-1",
                gang=gang,
                node="nodes/n2",
                kind=v1.EvictionKind.EVICTION_KIND_MOVE,
                to_node="nodes/n3",
            ),
        ],
    )
    told = answer(placement)
    assert told["bindings"][0]["devices"] == [2, 3]
    assert told["bindings"][0]["reservation"] == "plan-1"
    assert told["evictions"] == [
        {
            "namespace": "ml",
            "pod": "b-0",
            "podGang": "batch",
            "node": "n1",
            "kind": "PREEMPT",
            "for": "ml/a",
            "reason": "lower priority",
        },
        {
            "namespace": "ml",
            "pod": "b-1",
            "podGang": "batch",
            "node": "n2",
            "kind": "MOVE",
            "toNode": "n3",
            "reason": "",
        },
    ]


def test_warnings_keep_their_places() -> None:
    slip = Problem("cluster.json", "PodGang ml/a", "spec.topologyConstrain", "is not known")
    assert answer(v1.Placement(), [slip])["warnings"] == [
        {
            "file": "cluster.json",
            "object": "PodGang ml/a",
            "field": "spec.topologyConstrain",
            "message": "is not known",
        }
    ]


@pytest.mark.parametrize("code", v1.ReasonCode.values())
def test_reason_codes_lose_their_prefix(code: v1.ReasonCode) -> None:
    gang = v1.GangResult(name="namespaces/ml/podgangs/a", reasons=[v1.Reason(code=code)])
    [told] = answer(v1.Placement(gangs=[gang]))["podGangs"][0]["reasons"]
    assert "REASON_CODE_" + told["code"] == v1.ReasonCode.Name(code)


def test_first_answer_and_proof_appear_when_they_happened() -> None:
    placement = v1.Placement()
    placement.stats.first_answer.FromMilliseconds(20)
    placement.stats.proof.FromMilliseconds(500)
    placement.stats.first_tiers.add(name="admitted", value=90)
    stats = answer(placement)["stats"]
    assert stats["firstAnswerSeconds"] == 0.02
    assert stats["proofSeconds"] == 0.5
    assert stats["firstObjective"] == [{"tier": "admitted", "value": 90, "bound": None}]
