"""The files for launchers are what they say: manifests that Kubernetes takes, a sound image recipe."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.fleet import launching

RECIPES = Path(launching.__file__).parent / "recipes"
MANIFESTS = sorted((RECIPES / "kubernetes").glob("*.yaml"))
SCRIPTS = sorted(path for path in (RECIPES / "slurm").iterdir() if path.suffix != ".conf")


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the manifests: pip install pyyaml")
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def pods() -> list[dict[str, Any]]:
    every = [one for path in MANIFESTS for one in documents(path)]
    return [one["spec"]["template"]["spec"] for one in every if one["kind"] in ("Job", "DaemonSet")]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid_by_the_published_schemas(path: Path) -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="the published schemas: pip install kubernetes-validate"
    )
    version = ".".join(validate.latest_version().split(".")[:2])
    for one in documents(path):
        validate.validate(one, version, strict=True)


def test_a_pod_has_its_nodes_name_and_store() -> None:
    found = pods()
    assert len(found) == 2
    for pod in found:
        (container,) = pod["containers"]
        names = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
        assert names == {"NODE_NAME": "spec.nodeName"}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes["results"]["hostPath"]["path"] == "/var/lib/anubis"
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        assert pod["automountServiceAccountToken"] is False  # acting is asked for


def test_the_job_is_never_tried_until_it_passes() -> None:
    (job,) = (one for path in MANIFESTS for one in documents(path) if one["kind"] == "Job")
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["completions"] == job["spec"]["parallelism"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_act_only_on_request(path: Path) -> None:
    text = path.read_text()
    shell = text.partition("\n")[0].removeprefix("#!").rpartition("/")[2]
    subprocess.run([shell, "-n", str(path)], check=True, timeout=20)
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "scontrol" not in code
    for word in ("--act", "exit 1"):
        assert all("ANUBIS_" in line for line in code.splitlines() if word in line)


def test_a_prolog_refuses_only_rejected_nodes(tmp_path: Path) -> None:
    python = tmp_path / "python"
    conf = tmp_path / "launch.conf"
    for code, enforce, said, ends in (
        (1, "enforce", "ANB:X", 1),
        (1, "enforce", "", 0),  # of a Python that lacks the package
        (1, "", "ANB:X", 0),
        (20, "enforce", "ANB:X", 0),
        (0, "enforce", "ANB:X", 0),
    ):
        python.write_text(f"#!/bin/sh\necho {said}\nexit {code}\n")
        python.chmod(0o755)
        conf.write_text(
            f"ANUBIS_PYTHON={python}\nANUBIS_RESULTS={tmp_path}\nANUBIS_PROLOG={enforce}\n"
        )
        done = subprocess.run(
            ["sh", str(RECIPES / "slurm" / "prolog.sh")],
            env={"ANUBIS_CONF": str(conf)},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stderr) == (ends, f"anubis: {said}\n")


def test_the_image_recipe_is_sound() -> None:
    text = (RECIPES / "container" / "Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text)).split("\n")
    steps = [line.split(maxsplit=1) for line in lines if line.strip()]
    known = {"ARG", "FROM", "ENV", "COPY", "RUN", "WORKDIR", "VOLUME", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in steps} <= known
    assert next(word for word, _ in steps if word != "ARG") == "FROM"
    by_name = dict(steps)
    for word in ("ENTRYPOINT", "CMD", "VOLUME"):  # a shell between would keep signals from pytest
        assert isinstance(json.loads(by_name[word]), list)
    assert ":latest" not in text
    assert all(re.search(r":[\w.-]+$", rest) for word, rest in steps if word == "ARG")


def test_recipes_are_copied_to_be_adapted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "recipes", "slurm", str(tmp_path)]) == 0
    assert (tmp_path / "slurm" / "prolog.sh").stat().st_mode & 0o111
    assert main(["fleet", "recipes", "slurm", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
