"""What a user of the wheel types first: the benchmark set, the completion of a shell, help cut off."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pytest_anubis
from pytest_anubis.cli.commands.suites_command import source
from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.asking.next_step import SHIPPED
from tests.cli.command_line import anubis
from tests.cli.test_printing import Gone

ROOT = Path(__file__).parents[2]


def test_the_set_is_copied_and_overwrites_nothing(tmp_path: Path) -> None:
    done = anubis("suites", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"pytest --anubis {tmp_path / 'suites'}" in done.stdout
    theirs = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    ours = {p.relative_to(ROOT) for p in (ROOT / "suites").rglob("*") if p.suffix in (".py", ".c")}
    assert theirs == ours
    again = anubis("suites", str(tmp_path))
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "suites exists already" in again.stderr


def test_a_copy_that_fails_leaves_nothing_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "my node"

    def fill(origin: Path, target: Path, **_: object) -> None:
        target.mkdir()
        (target / "half.py").touch()
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device")])

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copytree", fill)
        failed = anubis("suites", str(here))
    assert failed.returncode == 2
    assert failed.stderr.endswith("cannot be written ([Errno 28] No space left on device)\n")
    assert list(here.iterdir()) == []
    done = anubis("suites", str(here))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in here.iterdir()] == ["suites"]
    assert f"pytest --anubis '{here}/suites'\n" in done.stdout


def test_an_installed_package_contains_the_set(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "pytest_anubis"
    (package.parent / "suites").mkdir(parents=True)  # another project's
    with pytest.raises(CommandError, match="install pytest-anubis again"):
        source(package)
    inner = package / "shipped" / "suites"
    (inner / "compute").mkdir(parents=True)
    (inner / "compute" / "test_gemm.py").touch()
    assert source(package) == inner


def test_the_set_runs_in_a_clone(tmp_path: Path) -> None:
    assert (ROOT / "pytest_anubis" / "shipped" / "suites").samefile(ROOT / "suites")
    words = ["-m", "pytest", "--anubis", "--collect-only", "-q", "-k", "test_dispatch"]
    done = subprocess.run(
        [sys.executable, *words, *SHIPPED.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "test_dispatch[cpu]" in done.stdout


def test_the_wheels_readme_has_no_dead_link() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for one in build["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert links


def test_the_package_itself_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["anubis", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "pytest_anubis" / "__main__.py"), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"anubis {pytest_anubis.__version__}\n"


def test_a_shell_completes_commands_options_and_files() -> None:
    pytest.importorskip("shtab")
    done = anubis("--print-completion", "bash")
    assert done.returncode == 0, done.stderr
    assert "_shtab_anubis_doctor" in done.stdout
    assert "--error-rate" in done.stdout  # an option of a command
    assert "_shtab_anubis_learn_pos_0_COMPGEN=_shtab_compgen_files" in done.stdout


def test_without_shtab_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = anubis("--print-completion", "zsh")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'pytest-anubis[completion]'" in done.stderr


def test_help_before_head_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unflushed(Gone):
        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        gone = Unflushed()
        monkeypatch.setattr(gone, "fileno", nowhere.fileno)
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(SystemExit) as ended:
            main(["learn", "--help"])
        assert ended.value.code == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("judge", "x", "--basline", "y"), "--basline y (did you mean --baseline?)"),
        (("learn", "x", "--round", "3"), "--round 3 (did you mean --rounds?)"),
        (("history", "nodes", "list", "--histry=x"), "--histry=x (did you mean --history?)"),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(
    words: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: anubis {words[0]} ")
    assert f"unrecognized arguments: {meant}" in said


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("lern", "suites"), "'lern'; did you mean 'learn'? ("), (("history", "xyz"), "'xyz' (")],
)
def test_a_misspelt_command_gets_a_suggestion(
    words: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"invalid choice: {meant}choose from " in capsys.readouterr().err


def test_an_error_of_the_program_itself_is_no_rejection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(options: object) -> int:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("pytest_anubis.cli.commands.health_command.run", broken)
    assert main(["health"]) == 20
    printed = capsys.readouterr().err
    assert "RuntimeError: a mistake of ours" in printed
    assert printed.splitlines()[-1].startswith("anubis: an error of the program itself")


def test_one_answer_alone_goes_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--json", "-", "--ocp", "-"]) == 2
    assert capsys.readouterr().out == ""


def test_a_closed_standard_error_changes_no_exit_code(tmp_path: Path) -> None:
    line = f"exec {sys.executable} -m pytest_anubis health --store {tmp_path} 2>&-"
    assert (
        subprocess.run(["sh", "-c", line], check=False, stdout=subprocess.DEVNULL).returncode == 20
    )
