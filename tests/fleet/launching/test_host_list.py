"""Hosts are listed as people and Slurm list them, each once, and none is an option of ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.fleet.launching.host_list import Host, HostListError, expand, read_hosts


def test_slurms_way_of_writing_many() -> None:
    assert expand("n[01-03,7],login") == ["n01", "n02", "n03", "n7", "login"]
    assert expand("rack[1-2]-ib") == ["rack1-ib", "rack2-ib"]


def test_a_file_has_one_host_a_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(
        "# rack 3\nn1\nn2 root@10.0.0.2  # the new one\n\nn3 ssh://root@10.0.0.3:2222\n"
    )
    hosts = [Host("n1", "n1"), Host("n2", "root@10.0.0.2"), Host("n3", "ssh://root@10.0.0.3:2222")]
    assert read_hosts(str(file)) == read_hosts(f"@{file}") == hosts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n1,n1", "n1 is listed twice"),
        ("", "no host in it"),
        ("n1 -oProxyCommand=touch\n", "nothing that ssh connects to"),
        ("-oProxyCommand=x", "is no name of a host"),
        ("n[1-", "write one bracket"),
        ("n[3-1]", "is no range"),
        ("n[0-999999999]", "more than 200,000 hosts"),
        ("n1 a b\n", "line 1: write NAME, or NAME DESTINATION"),
        ("n1 a;b\n", "nothing that ssh connects to"),
    ],
)
def test_what_is_no_list_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    if text.endswith("\n"):
        (tmp_path / "hosts").write_text(text)
        text = f"@{tmp_path / 'hosts'}"
    with pytest.raises(HostListError, match=words) as caught:
        read_hosts(text)
    assert "\n" not in str(caught.value)


def test_many_names_are_no_file_name() -> None:
    names = [f"node{number:04d}" for number in range(60)]
    assert [host.name for host in read_hosts(",".join(names))] == names
