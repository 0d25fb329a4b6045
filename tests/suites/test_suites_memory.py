"""The memory kernels do the work they say, and notice every wrong bit."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suites.compute.kernels import matrix
from suites.memory import native
from suites.memory.caches import MIB, Caches, cores_across, read_caches
from suites.memory.chase import LINE, SOURCE, Chase, footprint, typical
from suites.memory.huge_pages import HUGE
from suites.memory.stream import OPERATIONS, CoreStreams, Stream, elements_for
from tests.suites.work_probe import Allocations

Costs = Callable[..., list[float]]
CPU = torch.device("cpu")
COMPILER = native.find_compiler()
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler found")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    assert COMPILER is not None
    return native.load(SOURCE, COMPILER, tmp_path_factory.mktemp("native"))


def cache(root: Path, cpu: int, level: int, size: str, shared: str, kind: str = "Unified") -> None:
    index = len(list(root.glob(f"cpu{cpu}/cache/index*")))
    folder = root / f"cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True)
    texts = {"level": level, "size": size, "shared_cpu_list": shared, "type": kind}
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="ascii")


def test_caches_of_two_dies_are_added(tmp_path: Path) -> None:
    for cpu, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3")):
        cache(tmp_path, cpu, 1, "32K", str(cpu), "Instruction")
        cache(tmp_path, cpu, 2, "1024K", str(cpu))
        cache(tmp_path, cpu, 3, "32768K", shared)
    assert read_caches(tmp_path) == Caches(level2=MIB, last=32 * MIB, last_total=64 * MIB)


def test_caches_of_a_machine_that_does_not_say(tmp_path: Path) -> None:
    assert read_caches(tmp_path) == Caches(level2=MIB, last=32 * MIB, last_total=32 * MIB)


def test_cores_of_each_last_cache_take_turns(tmp_path: Path) -> None:
    for cpu, shared in ((0, "0-2"), (1, "0-2"), (2, "0-2"), (3, "3,5"), (4, "4"), (5, "3,5")):
        cache(tmp_path, cpu, 2, "1024K", str(cpu))
        cache(tmp_path, cpu, 3, "32768K", shared)
    assert cores_across(range(6), 9, tmp_path) == [0, 3, 4, 1, 5, 2]
    assert cores_across(range(6), 3, tmp_path) == [0, 3, 4]
    assert cores_across({1, 2, 5}, 9, tmp_path) == [1, 5, 2]
    assert cores_across({7, 8}, 9, tmp_path) == [7, 8]  # nothing is known of these


def test_arrays_go_past_the_caches_and_leave_memory() -> None:
    assert elements_for(32 * MIB, 1 << 40) == 4 * 32 * MIB // 8
    assert elements_for(300 * MIB, 1 << 40, 3) == 400 * MIB // 8
    assert elements_for(1 * MIB, 1 << 40) == 64 * MIB // 8
    assert elements_for(1 << 30, 16 << 30) == (1 << 30) // 8


@pytest.mark.alone
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_longer_stream_costs_more(operation: str, costs: Costs) -> None:
    short, long = Stream(operation, 1 << 20, CPU), Stream(operation, 1 << 22, CPU)
    assert long.bytes == 4 * short.bytes
    least = costs(short.run, long.run)
    assert least[1] > 2 * least[0]
    assert short.wrong_elements() == long.wrong_elements() == 0


@pytest.mark.alone
def test_more_passes_of_a_core_cost_more(costs: Costs) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:1]
    once, often = (CoreStreams("triad", 1 << 20, cpus, passes=passes) for passes in (1, 4))
    least = costs(once.turn, often.turn)
    assert least[1] > 2 * least[0]
    assert once.wrong_elements() == often.wrong_elements() == {}


def test_slowest_core_is_told_and_a_wrong_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    cpus = sorted(allowed)
    seen: list[tuple[set[int], int]] = []

    def here(stream: Stream) -> None:
        seen.append((os.sched_getaffinity(0), torch.get_num_threads()))
        if seen[-1][0] == {cpus[-1]}:
            time.sleep(0.1)
            stream._out[7] += 1

    streams = CoreStreams("triad", 1 << 16, cpus)
    monkeypatch.setattr(Stream, "run", here)
    assert streams.turn() == streams.rates[cpus[-1]][0] == min(r for (r,) in streams.rates.values())
    assert seen == [({cpu}, 1) for cpu in cpus]
    assert streams.wrong_elements() == {cpus[-1]: 1}
    assert os.sched_getaffinity(0) == allowed
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("bit", [0, 30, 52, 62])
def test_stream_notices_any_flipped_bit(operation: str, bit: int) -> None:
    def faulty(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        OPERATIONS[operation][1](x, y, out)
        out.view(torch.int64)[3_000_001 % len(out)] ^= 1 << bit

    stream = Stream(operation, 1 << 21, CPU, apply=faulty)
    stream.run()
    assert stream.wrong_elements() == 1


def test_stream_notices_what_was_not_written_and_what_went_astray() -> None:
    def half(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        out[:500].copy_(x[:500])

    def shifted(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x.roll(8))

    for fault, wrong in ((half, 500), (shifted, 1000)):
        stream = Stream("copy", 1000, CPU, apply=fault)
        stream.run()
        assert stream.wrong_elements() == wrong


@pytest.mark.parametrize("operation", ["copy", "read", "triad"])
def test_pieces_of_a_pass_are_checked_as_a_whole(operation: str) -> None:
    whole, parts = (Stream(operation, 1 << 20, CPU, pieces=pieces) for pieces in (1, 4))
    assert 4 * parts.bytes == whole.bytes
    parts.run()  # the rest of the pass follows before the check
    assert parts.wrong_elements() == 0
    parts._x[-1] += 1
    assert parts.wrong_elements() > 0


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_stream_notices_a_source_that_changed_in_memory(operation: str) -> None:
    stream = Stream(operation, 3_000_000, CPU)
    stream.run()
    assert stream.wrong_elements() == 0
    stream._x[2_000_001] += 1
    stream.run()
    assert stream.wrong_elements() == (2 if operation == "read" else 1)  # the element, and the sum


def test_stream_notices_a_source_whose_wrong_bit_a_sum_rounds_away() -> None:
    stream = Stream("add", 1 << 20, CPU)
    stream._x.view(torch.int64)[4_001] ^= 1  # the last bit: with a larger number added it is gone
    stream.run()
    assert stream.wrong_elements() == 1


def test_stream_holds_no_second_copy_of_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is made on the way to an array, and to check it, is a piece of it.
    elements = 6 << 20
    with Allocations() as made:
        stream = Stream("triad", elements, CPU)
        stream.run()
        assert stream.wrong_elements() == 0
    arrays = [size for size in made.sizes if size >= 8 * elements]
    others = [size for size in made.sizes if size < 8 * elements]
    assert arrays
    assert max(others) <= 8 * ((1 << 20) + 2 * 1021)


def test_device_that_does_not_notice_an_error_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream("copy", 1000, CPU)
    stream.run()
    monkeypatch.setattr(torch, "count_nonzero", lambda _: torch.tensor(0))
    assert stream.wrong_elements() == 1000


def mapping_of(address: int) -> str:
    """Return what the kernel says of the memory at an address: ``rw-p``, or ``rw-s`` where it is shared."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        place, kind, *_ = line.split()
        first, last = (int(end, 16) for end in place.split("-"))
        if first <= address < last:
            return kind
    raise AssertionError(f"nothing is mapped at {address:#x}")


@needs_compiler
def test_buffers_lie_where_kernels_give_huge_pages(library: ctypes.CDLL) -> None:
    # Shared memory, Python's default, is in small pages whatever is asked for (shmem_enabled).
    with Chase(library, MIB) as chain:
        place = chain._base.value or 0
        assert (mapping_of(place), place % HUGE) == ("rw-p", 0)
    made = matrix(300, 200, torch.float64, CPU)
    assert mapping_of(made.data_ptr()) == "rw-p"


@needs_compiler
@pytest.mark.parametrize("size", [2 * LINE, 3 * LINE, 64 * 1024, MIB + LINE])
def test_chain_visits_every_line_once(library: ctypes.CDLL, size: int) -> None:
    with Chase(library, size) as chain:
        # The line after each one, as it was written.
        links = list((ctypes.c_uint32 * chain.lines).from_address(chain._order.value or 0))
        assert len(links) == chain.lines == size // LINE
        line, visited = 0, 0
        while visited == 0 or line:
            line, visited = links[line], visited + 1
        assert visited == chain.lines
        chain.run(chain.lines // 2)
        assert chain.arrived()
        assert chain.wrong_links() == 0


@needs_compiler
@settings(deadline=None, max_examples=60)
@given(line=st.integers(0, 255), bit=st.integers(0, 63))
def test_chain_notices_any_flipped_bit(library: ctypes.CDLL, line: int, bit: int) -> None:
    with Chase(library, 256 * LINE) as chain:
        chain.flip(line, bit)
        assert chain.wrong_links() == 1
        chain.flip(line, bit)
        assert chain.wrong_links() == 0


@needs_compiler
def test_chain_notices_a_load_that_led_astray(library: ctypes.CDLL) -> None:
    with Chase(library, 256 * LINE) as chain:
        chain.flip(0, 6)  # the next line's number, one more or less
        chain.run(1)
        chain.flip(0, 6)  # memory is right again: only the walk can tell
        assert chain.wrong_links() == 0
        assert not chain.arrived()


@pytest.mark.alone
@needs_compiler
def test_more_loads_cost_more(library: ctypes.CDLL, costs: Costs) -> None:
    with Chase(library, 64 * 1024) as chain:
        least = costs(lambda: chain.run(100_000), lambda: chain.run(400_000))
    assert least[1] > 2 * least[0]


@pytest.mark.alone
@needs_compiler
def test_loads_from_memory_cost_more_than_from_cache(library: ctypes.CDLL, costs: Costs) -> None:
    with Chase(library, 64 * 1024) as near, Chase(library, 128 * MIB) as far:
        least = costs(lambda: near.run(100_000), lambda: far.run(100_000))
    assert least[1] > 1.5 * least[0]


@needs_compiler
@pytest.mark.parametrize("slow", [0, 1, 3, 7])
def test_typical_page_is_no_exception(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    made: list[Chase] = []

    def latency(chain: Chase, _: int) -> float:
        if chain not in made:
            made.append(chain)
        return 6.0 if made.index(chain) < slow else 5.0

    monkeypatch.setattr(Chase, "latency", latency)
    with typical(library, MIB) as chain:
        assert latency(chain, 1) == (6.0 if slow == 7 else 5.0)  # where all are slow, the cache is
        assert len(made) == 7
        with typical(library, 4 * MIB) as larger:
            assert larger not in made


def test_footprints_grow_from_level_to_level() -> None:
    caches = Caches(level2=MIB, last=32 * MIB, last_total=64 * MIB)
    near, middle, far = (footprint(level, caches) for level in ("l2", "llc", "dram"))
    assert near < caches.level2 < middle < caches.last < far


@needs_compiler
def test_source_that_does_not_compile_is_one_clear_error(tmp_path: Path) -> None:
    assert COMPILER is not None
    source = tmp_path / "broken.c"
    source.write_text("int f( {", encoding="ascii")
    with pytest.raises(native.CompilerError, match=r"failed on .*broken\.c"):
        native.load(source, COMPILER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["broken.c"]


def test_cache_folder_is_the_users_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert native.cache_folder() == tmp_path / "cache" / "pytest-anubis"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert native.cache_folder() is None


@pytest.mark.parametrize("place", ["cache", "cache/pytest-anubis"])
def test_cache_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache/pytest-anubis").mkdir(parents=True)
    (tmp_path / place).chmod(0o777)
    assert native.cache_folder() is None


def test_cache_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert native.cache_folder() is not None
    somebody = os.geteuid() + 1  # as if his folders were met by another user, root included
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    assert native.cache_folder() is None


@needs_compiler
def test_only_our_own_compiled_file_is_loaded(tmp_path: Path) -> None:
    assert COMPILER is not None
    cache = tmp_path / "cache"
    cache.mkdir()
    native.load(SOURCE, COMPILER, cache)
    (kept,) = cache.iterdir()
    planted = tmp_path / "planted.so"
    planted.write_bytes(b"not to be loaded")

    def writable() -> None:
        kept.write_bytes(b"planted")
        kept.chmod(0o666)

    ways: dict[str, Callable[[], object]] = {
        "a link": lambda: kept.symlink_to(planted),
        "a second name": lambda: kept.hardlink_to(planted),
        "writable by all": writable,
    }
    for way, plant in ways.items():
        kept.unlink()
        plant()
        assert native.load(SOURCE, COMPILER, cache).chain_walk, way
        assert planted.read_bytes() == b"not to be loaded", way
    cache.chmod(0o777)
    with pytest.raises(native.CompilerError, match="others can write there"):
        native.load(SOURCE, COMPILER, cache)


@needs_compiler
def test_without_a_cache_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMPILER is not None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert native.load(SOURCE, COMPILER, None).chain_walk
    assert not list(tmp_path.iterdir())
