"""Which injected fault does which benchmark find, and which does it leave alone?

Two tables. Of speed: a baseline of this machine is learned once, from runs of the suites' own kernels; then,
in turns, each fault is put in and the benchmarks of its row measured and judged as the plugin does it, by
clear moments: nothing, a busy core, one at half or .8 of its quota, a neighbour that streams memory, a disk
limited by the kernel, a link shaped to .5, .8 and .9 of its rate. Beside each fault stand the benchmarks that
must find it (recall) and those that it does not concern (false alarms). Somebody else on the cores, who
leaves no clear moment, is found where that is said. Of data: one flipped bit, at a random place, in each kind
of buffer, and whether the benchmark's own check sees it; the suites' own peer copies, permutations, burn and
patterns on eight stand-in cards one of whose ways or cards has a fault (`eight_cards`); and whole runs with
one sick card of eight stand-ins (`benchmarks/accelerators/stand_in_node.py`): 5 % slow, hot, with less
memory, with a bad page, with a dead link.

Run: ``python benchmarks/suites/faults [--trials 20] [--learn 20] [--only NAME ...] [--list]``. With
``--state FILE`` the trials of faults that take time can be made in pieces (``--for 9m``) while the machine
does nothing else. Root is needed for the quota, the disk and the link; what is not possible is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from benchmarks.suites.faults.table import main

if __name__ == "__main__":
    raise SystemExit(main(__doc__ or ""))
