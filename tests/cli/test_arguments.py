"""What the options accept, and how they refuse the rest."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from placement import v1
from placement.cli import arguments
from placement.cli.policy import read_policy
from placement.kubernetes import InputError


@pytest.mark.parametrize(
    ("text", "want"),
    [("500ms", 0.5), ("10s", 10.0), ("1m30s", 90.0), ("1.5s", 1.5), ("2h", 7200.0), ("1ms", 0.001)],
)
def test_durations(text: str, want: float) -> None:
    assert arguments.duration(text) == want


@pytest.mark.parametrize(
    "text", ["", "10", "0s", "-1s", "1d", "s", "1 s", "1e3s", "25h", "\u0661s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        arguments.duration(text)


def test_files_may_be_given_together_and_apart() -> None:
    options = arguments.parse(["plan", "-f", "a", "b", "-f", "-", "-o", "json"])
    assert options.files == ["a", "b", "-"]
    assert options.output == "json"
    assert options.time_limit == 10.0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([], id="no command"),
        pytest.param(["plan"], id="no file"),
        pytest.param(["plan", "-f"], id="file without a name"),
        pytest.param(["plan", "-f", "a", "-o", "xml"], id="unknown output"),
        pytest.param(["plan", "-f", "a", "--time-limit", "soon"], id="no duration"),
        pytest.param(["plan", "-f", "a", "--server", "host"], id="server without port"),
        pytest.param(["plan", "-f", "a", "--server", ":1"], id="server without host"),
        pytest.param(["plan", "-f", "a", "--server", "h:0"], id="server with port 0"),
        pytest.param(["plan", "-f", "a", "--tls-ca", "ca"], id="TLS without a server"),
        pytest.param(["plan", "-f", "a", "--kubeconfig", "k"], id="a kubeconfig for files"),
        pytest.param(["plan", "-f", "a", "--context", "c"], id="a context for files"),
        pytest.param(["plan", "-f", "a", "--scheduler-name", "s"], id="a scheduler for files"),
        pytest.param(
            ["plan", "-f", "a", "--server", "h:1", "--tls-ca", "ca", "--tls-key", "k"],
            id="a key without certificate",
        ),
        pytest.param(
            ["plan", "-f", "a", "--server", "h:1", "--tls-key", "k", "--tls-certificate", "c"],
            id="a certificate in plain text",
        ),
        pytest.param(["expand", "-f", "a", "-o", "json"], id="expand has no output"),
        pytest.param(["paln", "-f", "a"], id="unknown command"),
    ],
)
def test_wrong_arguments_end_with_status_2(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(wrong)
    assert ended.value.code == 2
    assert "usage: placementctl" in capsys.readouterr().err


def test_an_unknown_option_is_answered_with_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["plan", "-f", "a", "--time-limt", "5s"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "usage: placementctl plan" in told
    assert "placementctl plan: error: unrecognized arguments: --time-limt" in told


@pytest.mark.parametrize("asked", [["--help"], ["plan", "--help"], ["expand", "--help"]])
def test_help_has_examples(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(asked)
    assert ended.value.code == 0
    assert "examples:\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "gpuResources: [example.com/tpu]\ndeterministic: true\n",
        '{"gpuResources": ["example.com/tpu"], "deterministic": true}',
    ],
)
def test_a_policy_is_yaml_or_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy"
    file.write_text(text)
    want = v1.Policy(gpu_resources=["example.com/tpu"], deterministic=True)
    assert read_policy(str(file)) == want


def test_an_empty_policy_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("# nothing\n")
    assert read_policy(str(tmp_path / "policy")) == v1.Policy()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("gpus: [a]\n", "gpus", id="unknown field"),
        pytest.param("deterministic: maybe\n", "deterministic", id="wrong type"),
        pytest.param("- deterministic\n", "mapping", id="a list"),
        pytest.param("a: [\n", "YAML", id="not even YAML"),
        pytest.param("\0", "YAML", id="binary"),
    ],
)
def test_a_wrong_policy_is_a_problem_with_its_file(tmp_path: Path, text: str, names: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_policy(str(file))
    [problem] = raised.value.problems
    assert problem.file == str(file)
    assert names in str(problem)


def test_a_policy_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_policy(str(tmp_path / "none.yaml"))
