"""One device under load: products one after the other, compared with the first bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

BATCH = 0.02
"""Seconds of work between two waits for the device: a wait costs some ten microseconds."""

SHORT_BATCH = 0.002
"""The same while the load comes and goes: a fifth of the shortest load, 5 ms at 100 Hz."""

EVERY = 16
"""Products of which one is compared, besides the first and the last of a load: comparing moves so many bytes
that it takes 8 to 15 % of a product's time on an H100, and a rate in which it is would not be that of the
matrix units. So it is 1 % at most, and a fault that stays is found at once: one comparison in 25 ms. Of
faults that strike once one in sixteen is found. A running sum or fingerprint of all results would find each,
but has to read them: 128 MiB of a bfloat16 product of size 8,192 at 3.3 TB/s are 40 us of its 1.6 ms, 2.5 %
at the best."""

AT_LEAST = 1.0
"""Seconds in which one is compared at least, where products take long; it takes the smaller share of them."""

CALIBRATION = 3
"""Products by which one is timed, after a first one."""


class Product(Protocol):
    """What is computed over and over (`suites.compute.exact.ExactProduct`)."""

    @property
    def work(self) -> float:
        """Operations of one product."""
        ...

    def keep(self) -> None:
        """Compute once more; later results are compared with this one."""
        ...

    def run(self) -> None:
        """Compute; need not wait for it."""
        ...

    def compare(self) -> None:
        """Count what differs between the last result and the first one; need not wait for it."""
        ...

    def wrong_elements(self) -> int:
        """Return how many elements differed since `keep`."""
        ...


@dataclass(frozen=True, slots=True)
class Burnt:
    """What one load did.

    Attributes:
        compared: How many of them were compared: every `EVERY`-th, one a second, and the last.
        work: Operations of them all.
        seconds: For how long the device was under load.
        wrong: Elements that differed from those of the first result.
    """

    products: int
    compared: int
    work: float
    seconds: float
    wrong: int

    @property
    def rate(self) -> float:
        """Operations a second under load."""
        return self.work / self.seconds


class Burner:
    """Loads one device and counts what came out wrong.

    Args:
        product: The work. Its first result is taken here.
        now: The clock in seconds, one that all processes of the machine share.

    Attributes:
        seconds: That one product takes.
    """

    def __init__(
        self,
        product: Product,
        synchronize: Callable[[], object],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._product, self._synchronize = product, synchronize
        self._now, self._sleep = now, sleep
        product.keep()
        self._synchronize()
        begin = now()
        for _ in range(CALIBRATION):
            product.run()
        self._synchronize()
        self.seconds = (now() - begin) / CALIBRATION
        self._every = max(1, min(EVERY, int(AT_LEAST / max(self.seconds, 1e-9))))
        self._seen = self._queued = self._compared = 0

    def turn(self) -> None:
        """Queue one product; compare it, if it is one of those that are."""
        self._product.run()
        if self._queued % self._every == 0:
            self._compare()
        self._queued += 1

    def load(self, seconds: float) -> Burnt:
        """Load the device for so long, at least."""
        (done,) = self.parts(seconds, 1)
        return done

    def parts(
        self,
        seconds: float,
        count: int,
        *,
        begin: float = 0.0,
        batches: int = 0,
        each_batch: Callable[[], object] | None = None,
    ) -> Iterator[Burnt]:
        """Load the device without a rest, and give what each part of the load did as soon as it is over.

        Who takes a part asks for the next at once: until then the device has nothing to do.

        Args:
            seconds: Of one part; the ends of all parts are so far apart on the clock, for all devices that
                begin together.
            count: How many.
            begin: When, on the clock; at once if that is over.
            batches: Instead of a time so many batches in a part, where other devices have to do as many.
            each_batch: Called once in each batch, while the device works: reads sensors, or queues more work.
        """
        self._wait_for(begin)
        begin = self._now()
        for number in range(1, count + 1):
            products, took = self._until(begin + number * seconds, BATCH, each_batch, batches)
            yield self._burnt(products, took)

    def steps(
        self, hertz: float, periods: int, each: int = 1, *, begin: float = 0.0
    ) -> list[Burnt]:
        """Load the device in the first half of each period, and let it rest in the second, the last one too.

        Args:
            hertz: Periods a second.
            periods: How many, without a break between them.
            each: Batches whose work is reported together.
            begin: When the first begins, on the clock; devices that share it step together.
        """
        begin = max(begin, self._now())
        parts, products, took = [], 0, 0.0
        for number in range(periods):
            start = begin + number / hertz
            self._wait_for(start)
            done, seconds = self._until(start + 0.5 / hertz, SHORT_BATCH)
            products, took = products + done, took + seconds
            if (number + 1) % each == 0 or number + 1 == periods:
                parts.append(self._burnt(products, took))
                products, took = 0, 0.0
        self._wait_for(begin + periods / hertz)
        return parts

    def _compare(self) -> None:
        self._product.compare()
        self._compared += 1

    def _wait_for(self, moment: float) -> None:
        rest = moment - self._now()
        if rest > 0:
            self._sleep(rest)

    def _until(
        self,
        end: float,
        batch: float,
        each_batch: Callable[[], object] | None = None,
        batches: int = 0,
    ) -> tuple[int, float]:
        """Work until a moment, one batch at least, or so many; return how many products, and the seconds."""
        each = max(1, int(batch / max(self.seconds, 1e-9)))
        begin, products = self._now(), 0
        self._queued = 0  # the first is compared: in it the load rises
        while True:
            for _ in range(each):
                self.turn()
            if each_batch is not None:
                each_batch()
            self._synchronize()
            products += each
            if products == batches * each or (not batches and self._now() >= end):
                took = self._now() - begin
                if (products - 1) % self._every:  # else it just was
                    self._compare()
                return products, took

    def _burnt(self, products: int, seconds: float) -> Burnt:
        wrong = self._product.wrong_elements()
        new, self._seen = wrong - self._seen, wrong
        compared, self._compared = self._compared, 0
        return Burnt(products, compared, products * self._product.work, seconds, new)
