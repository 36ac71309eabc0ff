"""What the options accept, and how they refuse the rest."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placement import v1
from placement.cli.completing import SHELLS
from placement.cli.input.policy import read_policy
from placement.cli.main import COMMANDS, main
from placement.cli.options import option_values
from placement.cli.options.option_values import Addition, Freeing, GangName
from placement.kubernetes import InputError


@pytest.mark.parametrize(
    ("text", "want"),
    [("500ms", 0.5), ("10s", 10.0), ("1m30s", 90.0), ("1.5s", 1.5), ("2h", 7200.0), ("1ms", 0.001)],
)
def test_durations(text: str, want: float) -> None:
    assert option_values.duration(text) == want


@pytest.mark.parametrize(
    "text", ["", "10", "0s", "-1s", "1d", "s", "1 s", "1e3s", "25h", "\u0661s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        option_values.duration(text)


def test_additions_are_nodes_or_domains() -> None:
    assert option_values.addition("4=gpu-0") == Addition(4, "", "gpu-0")
    rack = Addition(1, "topology.example.com/rack", "r7")
    assert option_values.addition("1=topology.example.com/rack:r7") == rack


@pytest.mark.parametrize("text", ["", "gpu-0", "1=", "x=n", "1=rack:", "1.5=n"])
def test_what_is_no_addition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not COUNT=NODE"):
        option_values.addition(text)


@pytest.mark.parametrize(
    ("read", "text", "span"),
    [
        (option_values.addition, "0=gpu-0", "from 1 to 100000"),
        (option_values.addition, "-1=rack:r7", "from 1 to 100000"),
        (option_values.addition, "9" * 5000 + "=n", "from 1 to 100000"),
        (option_values.freeing, "rack=0", "from 1 to 100000"),
        (option_values.other_priority, "ml/a=2147483648", "from -2147483648 to 2147483647"),
        (option_values.other_limit, "team=-1", "from 0 to 10000000"),
    ],
)
def test_what_is_too_much_is_told_with_what_is_not(
    read: Callable[[str], object], text: str, span: str
) -> None:
    with pytest.raises(ValueError, match=f"the number must be {span}"):
        read(text)


def test_the_lowest_priority_is_one() -> None:
    assert option_values.other_priority("ml/a=-2147483648").number == -(2**31)


def test_a_level_may_hold_any_sign_before_its_count() -> None:
    assert option_values.freeing("example.com/a=b=2") == Freeing("example.com/a=b", 2)


@pytest.mark.parametrize("text", ["a", "a/", "/a", "a/b/c", ""])
def test_a_gang_has_a_namespace_and_a_name(text: str) -> None:
    assert option_values.gang_name("ml/a") == GangName("ml", "a")
    with pytest.raises(ValueError, match="NAMESPACE/NAME"):
        option_values.gang_name(text)


def test_a_time_without_a_zone_is_universal() -> None:
    want = datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert option_values.moment("2026-11-22T10:00:00") == want
    assert option_values.moment("2026-11-22T11:00:00+01:00") == want
    for text in ("yesterday", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(ValueError, match="is not a time"):
            option_values.moment(text)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(["plan"], id="no file"),
        pytest.param(["plan", "-f"], id="file without a name"),
        pytest.param(["plan", "a"], id="a file without -f"),
        pytest.param(["plan", "-f", "a", "-o", "xml"], id="unknown output"),
        pytest.param(["plan", "-f", "a", "--time-limit", "soon"], id="no duration"),
        pytest.param(["plan", "-f", "a", "--server", "host"], id="server without port"),
        pytest.param(["plan", "-f", "a", "--server", ":1"], id="server without host"),
        pytest.param(["plan", "-f", "a", "--server", "h:0"], id="server with port 0"),
        pytest.param(["plan", "-f", "a", "--server", "unix:"], id="a socket without a name"),
        pytest.param(["plan", "-f", "a", "--tls-ca", "ca"], id="TLS without a server"),
        pytest.param(["plan", "-f", "a", "--live"], id="files and a cluster"),
        pytest.param(["plan", "-f", "a", "--kubeconfig", "k"], id="a kubeconfig for files"),
        pytest.param(["plan", "-f", "a", "--context", "c"], id="a context for files"),
        pytest.param(["plan", "-f", "a", "--scheduler-name", "s"], id="a scheduler for files"),
        pytest.param(["plan", "-f", "a", "--evict", "all"], id="no eviction policy"),
        pytest.param(
            ["plan", "-f", "a", "--server", "h:1", "--tls-ca", "ca", "--tls-key", "k"],
            id="a key without certificate",
        ),
        pytest.param(
            ["plan", "-f", "a", "--server", "h:1", "--tls-key", "k", "--tls-certificate", "c"],
            id="a certificate in plain text",
        ),
        pytest.param(["expand", "-f", "a", "-o", "html"], id="expand has no page"),
        pytest.param(["expand", "-f", "a", "--time-limit", "soon"], id="no duration for expand"),
        pytest.param(["expand"], id="expand without a file"),
        pytest.param(["explain", "-f", "a"], id="no gang to explain"),
        pytest.param(["capacity", "-f", "a"], id="neither gang nor level"),
        pytest.param(["capacity", "-f", "a", "--gang", "a/b", "--like", "r"], id="like a gang"),
        pytest.param(
            ["capacity", "-f", "a", "--add", "rack", "--evict", "preempt"],
            id="evictions where all are placed",
        ),
        pytest.param(
            ["repack", "-f", "a", "--free", "rack=1", "--evict", "repack"],
            id="evictions for nobody",
        ),
        pytest.param(["completion", "csh"], id="unknown shell"),
        pytest.param(["paln", "-f", "a"], id="unknown command"),
    ],
)
def test_wrong_arguments_end_with_status_2(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(wrong) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Usage: placementctl" in told.err
    assert "Error: " in told.err


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        (["paln", "-f", "a"], "plan"),
        (["plan", "-f", "a", "--time-limt", "5s"], "--time-limit"),
        (["plan", "-f", "a", "--evict", "reclam"], "reclaim"),
    ],
)
def test_the_nearest_name_is_suggested(
    wrong: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(wrong) == 2
    assert near in capsys.readouterr().err


@pytest.mark.parametrize("command", [*COMMANDS])
def test_each_command_has_help_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    told = capsys.readouterr().out
    assert f"Usage: placementctl {command}" in told
    assert "Examples:\n" in told


def test_help_is_also_what_it_is_called_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "plan"]) == 0
    assert "Usage: placementctl plan" in capsys.readouterr().out
    assert main(["help"]) == 2
    assert "Did you mean --help?" in capsys.readouterr().err


def test_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {command} " in told for command in COMMANDS)
    assert "Examples:\n" in told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_PLACEMENTCTL_COMPLETE" in capsys.readouterr().out


def test_commands_and_options_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PLACEMENTCTL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "placementctl pl")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert main([]) == 0
    assert capsys.readouterr().out == "plain,plan\n"


@pytest.mark.parametrize(
    ("shell", "words", "at", "want"),
    [
        pytest.param("bash", "plan --evict = p", "4", "plain,preempt\n", id="bash: three words"),
        pytest.param("bash", "completion =", "2", "", id="bash: a sign that belongs to no option"),
        pytest.param("bash", "plan --policy = f", "4", "file,f\n", id="bash: a file"),
        pytest.param("zsh", "plan --evict=p", "2", "plain\n--evict=preempt\n_\n", id="zsh"),
        pytest.param("fish", "plan --evict=p", "--evict=p", "plain,--evict=preempt\n", id="fish"),
        pytest.param("fish", "plan --policy", "f", "file,f\n", id="fish: a file"),
    ],
)
def test_values_are_completed_wherever_a_shell_cuts_words(
    shell: str,
    words: str,
    at: str,
    want: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_PLACEMENTCTL_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", f"placementctl {words}")
    monkeypatch.setenv("COMP_CWORD", at)
    assert main([]) == 0
    assert capsys.readouterr().out.strip("\n") == want.strip("\n")


def test_the_scripts_of_shells_are_still_those_that_are_mended() -> None:
    assert "compset -P '--*='" in SHELLS["zsh"].source_template
    assert "string split -m 1" in SHELLS["fish"].source_template
    assert "set -l option" in SHELLS["fish"].source_template


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
@pytest.mark.parametrize(
    ("typed", "want"),
    [("--filename=./a", "--filename=./a.json"), ("-f ./a", "./a.json")],
)
def test_fish_completes_files_behind_an_option_and_its_sign(
    typed: str, want: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").touch()
    script = f"placementctl completion fish | source; complete -C 'placementctl plan {typed}'"
    said = subprocess.run(
        ["fish", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == [want]


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


def test_a_policy_has_the_choices_of_the_api_without_their_prefix(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "eviction: PREEMPT\nextras: WITH_PRIORITY\nstarvationAfter: 3600s\n"
        "tolerances: {admitted: 0.01}\n"
    )
    policy = read_policy(str(file))
    assert policy.eviction == v1.EvictionPolicy.EVICTION_POLICY_PREEMPT
    assert policy.extras == v1.ExtrasPolicy.EXTRAS_POLICY_WITH_PRIORITY
    assert policy.starvation_after.seconds == 3600
    assert dict(policy.tolerances) == {"admitted": 0.01}


def test_a_slip_in_a_policy_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("evictoin: PREEMPT\n")
    with pytest.raises(InputError, match="did you mean eviction"):
        read_policy(str(file))


def test_every_mistake_in_a_policy_is_told(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("extras: SOMETIMES\nevict: NONE\nstarvationAfter: 1 hour\n")
    with pytest.raises(InputError) as wrong:
        read_policy(str(file))
    assert [p.field for p in wrong.value.problems] == ["extras", "evict", "starvationAfter"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eviction: {kind: NONE}", "one of NONE, PREEMPT, RECLAIM, REPACK, not a mapping"),
        ("eviction: 3", "one of NONE, PREEMPT, RECLAIM, REPACK, not 3"),
        ("extras: ''", "one of AFTER_MINIMUMS, WITH_PRIORITY, not empty"),
        ("gpuResources: [a, 1]", "gpuResources[1]: must be the name of a resource, not 1"),
        ("starvationAfter: 3600", "seconds such as 3600s, not 3600"),
        ("starvationAfter: 999999999999s", "must be at most 315576000000s"),
        ("tolerances: [0.1]", "shares by tier such as {admitted: 0.01}, not a list"),
        ("tolerances: {admited: 0.1}", "tolerances[admited]: is no tier; the tiers are admitted"),
        ("tolerances: {admitted: .nan}", "must be a number from 0 to 1, not nan"),
        ("eviction: NONE\neviction: REPACK", ":2: Policy: eviction: is there twice"),
        ("tolerances: {admitted: true}", "must be a number from 0 to 1, not true"),
    ],
)
def test_a_field_of_a_policy_says_what_it_may_hold(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as wrong:
        read_policy(str(file))
    [problem] = wrong.value.problems
    assert message in str(problem)


def test_a_share_may_be_written_with_an_exponent(tmp_path: Path) -> None:
    """YAML takes it for text."""
    file = tmp_path / "policy.yaml"
    file.write_text("tolerances: {admitted: 1e-2}")
    assert dict(read_policy(str(file)).tolerances) == {"admitted": 0.01}


def test_every_wrong_value_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--without", "a", "--without", "b", "--add", "none", "-o", "xml", "--time-limit", "0"]
    assert main(["plan", "-f", "x", *wrong]) == 2
    told = capsys.readouterr().err
    assert told.count("Invalid value for") == 5
    assert all(name in told for name in ("'a'", "'b'", "'none'", "'xml'", "'0'"))


def test_every_option_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With what else is wrong; what may be the value of one is not told for itself."""
    wrong = ["--time-limt", "3", "--bar=3", "-x", "-o", "xml", "--live=1", "--server", "a", "-f"]
    assert main(["plan", *wrong]) == 2
    told = capsys.readouterr().err
    lines = [line[7:] for line in told.splitlines() if line.startswith(("Error: ", "       "))]
    names = ["--time-limt", "--bar", "-x", "--live", "-f", "--output", "--server"]
    assert len(lines) == len(names)
    assert all(name in line for name, line in zip(names, lines, strict=True))


def test_an_option_that_is_given_twice_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--gang", "ml/a", "--gang", "ml/b", "-o", "json", "--cordon", "a=b", "--cordon", "a=c"]
    assert main(["explain", "-f", "no-such-file", *twice, "--output", "yaml"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[:-1] == [
        f"placementctl: warning: {name}: is given 2 times; the last one counts"
        for name in ("--gang", "-o / --output")
    ]
    assert "no-such-file" in told[-1]


def test_what_is_missing_is_told_with_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-f", "x", "-o", "xml"]) == 2
    told = capsys.readouterr().err
    assert "Missing option '--gang'" in told
    assert "'xml' is not one of" in told
    assert main(["diff", "a", "b", "c", "-o", "xml"]) == 2
    told = capsys.readouterr().err
    assert "unexpected extra arguments (c)" in told
    assert "'xml' is not one of" in told


def test_an_option_that_does_not_exist_may_look_like_a_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "-f", "--foo", "--foo", "--bar"]) == 2
    told = capsys.readouterr().err
    assert told.count("No such option '--foo'") == 1


def test_all_options_that_do_not_go_together_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "--live", "-f", "x", "--tls-key", "k", "--like", "r1"]) == 2
    told = capsys.readouterr().err
    for message in (
        "--live and files exclude each other",
        "--tls-ca, --tls-certificate and --tls-key go with --server",
        "--tls-certificate and --tls-key belong together",
        "name a gang with --gang",
        "--like goes with --add",
    ):
        assert message in told


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
