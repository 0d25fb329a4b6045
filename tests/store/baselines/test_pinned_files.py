"""Baselines from a share match the named digests, or nothing is judged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pytest_anubis import settings
from pytest_anubis.store.baselines.baseline_form import BaselineError
from pytest_anubis.store.baselines.pinned_files import verified

NAMES = ("a.json", "certificates/b.json")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "certificates").mkdir()
    for name in NAMES:
        (tmp_path / name).write_text(name)
    lines = [f"{digest(tmp_path / name)}  ./{name}\n" for name in NAMES]
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    return tmp_path


def test_folder_must_match_its_sha256sums(folder: Path) -> None:
    pin = digest(folder / "SHA256SUMS")
    assert verified(folder, "") == f"{folder} holds what its SHA256SUMS lists"
    assert verified(folder, pin).endswith(f"sha256:{pin[:12]}, as it was named")
    file = folder / "a.json"
    assert verified(file, "") == ""
    assert verified(file, digest(file)).startswith(f"{file} is sha256:")


def test_changed_file_is_refused_in_one_line(folder: Path) -> None:
    pin, other = digest(folder / "SHA256SUMS"), "0" * 64
    for place, words in (
        (folder, "SHA256SUMS: is sha256:"),
        (folder / "a.json", "json: is sha256:"),
    ):
        with pytest.raises(BaselineError, match=words):
            verified(place, other)
    (folder / "certificates" / "b.json").write_text("changed")
    with pytest.raises(BaselineError, match=r"b\.json: is sha256:"):
        verified(folder, pin)
    (folder / "certificates" / "b.json").write_text(NAMES[1])
    (folder / "c.json").write_text("more")
    with pytest.raises(BaselineError, match=r"c\.json: is not listed"):
        verified(folder, "")
    (folder / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(BaselineError, match="line 1 is not as sha256sum writes it"):
        verified(folder, "")
    (folder / "SHA256SUMS").unlink()
    assert verified(folder, "") == ""
    with pytest.raises(BaselineError, match="has no SHA256SUMS"):
        verified(folder, pin)


def test_run_is_judged_by_the_pinned_baseline_only(pytester: pytest.Pytester) -> None:
    share = pytester.mkdir("share")
    pin = "A" * 64
    found = settings.resolve(pytester.parseconfig(f"--anubis-baseline=share@sha256:{pin}"), {})
    assert (found.baselines, found.baseline_pin) == (share, pin.lower())
    result = pytester.runpytest("--anubis", f"--anubis-baseline=share@sha256:{pin}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --anubis-baseline: *share: has no SHA256SUMS; write it: *"]
    )
    with pytest.raises(pytest.UsageError, match="64 hexadecimal digits"):
        settings.resolve(pytester.parseconfig("--anubis-baseline=share@sha256:abc"), {})
