"""One product that has the same bits on every device, whatever it is and however many threads it has."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

SIZE = 512
"""Rows and columns: all units of a device take part, and a core is done in a tenth of a second."""

FINGERPRINT = 16802499651000770529
"""Fingerprint of the product, computed in whole numbers by `tests/suites/test_suites_exact.py`."""

FINGERPRINT_16 = 7131179850874136235
"""The same of whole numbers of 16 bits."""

KEPT_BITS = 32
"""Recorded bits of the fingerprint: a record stores floats, which are exact to 53 bits."""

REPEATS = {"smoke": 10, "standard": 1000, "soak": 100_000}
"""Products, each compared with the first."""

PRODUCTS_16 = 4
"""Products of bytes that one of 16 bits takes, so that it is repeated a quarter as often."""


@pytest.mark.anubis(
    component="compute.exact",
    scope="device",
    host=True,
    cost="1s",
    metrics=["exact_fingerprint", "exact_errors"],
    goal="Every device computes the same as every other one",
    question="Has a product of whole numbers the bits that it has on every other device?",
    action="Take the device out of service: nothing explains another result but silent corruption",
)
@pytest.mark.usefixtures("torch_settings")
def test_same_bits_everywhere(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Floats and whole numbers of 8 and 16 bits, one thread and all: the fingerprints of all devices.

    Those of 16 bits are computed by the units for 8 bits, and their fingerprint is not recorded.
    """
    import torch

    from pytest_anubis.benchmarking.applicability import supports
    from suites.compute.exact import ExactProduct, Shape

    eight_bits = supports(anubis_device.torch, "int8")
    dtypes = ("float32", "int8", "int16") if eight_bits else ("float32",)
    threads = sorted({1, anubis_node.cores}) if anubis_device.kind == "cpu" else [0]
    found: dict[str, int] = {}
    expected: dict[str, int] = {}
    wrong = 0
    for dtype in dtypes:
        product = ExactProduct(Shape.square(SIZE), dtype, anubis_device.torch)
        for count in threads:
            if count:
                torch.set_num_threads(count)
            product.keep()
            repeats = anubis_node.pick(**REPEATS) // len(threads)
            for _ in range(repeats // PRODUCTS_16 if dtype == "int16" else repeats):
                product.run_compared()
            name = f"{dtype}{f' on {count} threads' if count else ''}"
            found[name] = product.fingerprint()
            expected[name] = FINGERPRINT_16 if dtype == "int16" else FINGERPRINT
            wrong += product.wrong_elements()
    recorded = [found[name] for name, value in expected.items() if value == FINGERPRINT]
    values = [value % (1 << KEPT_BITS) for value in recorded]
    anubis_metric.record("exact_fingerprint", values, unit="1", better="equal")
    anubis_metric.record("exact_errors", wrong, unit="count", better="equal")
    assert wrong == 0, f"{wrong} elements differ between products of the same numbers"
    others = [name for name, value in expected.items() if found[name] != value]
    assert not others, f"another result than that of every other device: {', '.join(others)}"
