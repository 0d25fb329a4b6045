"""Read the network's counters: errors, discards, lost links, congestion, and data that were sent again.

Files and names: the kernel's `Documentation/ABI/testing/sysfs-class-net-statistics`, `sysfs-class-net` and
`sysfs-class-infiniband`; the counters of RDMA hardware are those of mlx5 and of bnxt_re (`hw_counters.c`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_anubis.hardware.telemetry.host_sensors import HOST, Asked, Reading, asked
from pytest_anubis.hardware.text_files import Files

_NET = "/sys/class/net"
_RDMA = "/sys/class/infiniband"
_SNMP = "/proc/self/net/snmp"
_TCP = "Tcp:"
_RESENT = "RetransSegs"

RESENT = "TCP segments sent again"

# ``rx_dropped`` is left out: it also counts frames of protocols that the host does not use, which switches
# send to every host.
_INTERFACE = {
    "statistics/rx_errors": "receive errors",
    "statistics/tx_errors": "send errors",
    "statistics/rx_missed_errors": "receive discards",
    "statistics/tx_dropped": "send discards",
    "carrier_changes": "carrier changes",
}
_PORT = {
    "counters/symbol_error": "symbol errors",
    "counters/link_error_recovery": "link recoveries",
    "counters/link_downed": "link failures",
    "counters/port_rcv_errors": "receive errors",
    "counters/port_rcv_remote_physical_errors": "receive errors of the other end",
    "counters/port_xmit_discards": "send discards",
    "counters/local_link_integrity_errors": "link integrity errors",
    "counters/excessive_buffer_overrun_errors": "buffer overruns",
    "hw_counters/out_of_buffer": "discards without a receive buffer",
    "hw_counters/out_of_sequence": "packets out of sequence",
    "hw_counters/packet_seq_err": "sequence errors",
    "hw_counters/implied_nak_seq_err": "implied sequence errors",
    "hw_counters/local_ack_timeout_err": "acknowledgement time-outs",
    "hw_counters/rnr_nak_retry_err": "retries for a receiver that was not ready",
    "hw_counters/roce_adp_retrans": "adaptive retransmissions",
    "hw_counters/rx_icrc_encapsulated": "checksum errors",
    "hw_counters/to_retransmits": "retransmissions after a time-out",
    "hw_counters/seq_err_naks_rcvd": "sequence errors that the other end reported",
    "hw_counters/rnr_naks_rcvd": "refusals of a receiver that was not ready",
    "hw_counters/rx_roce_discards": "receive discards",
    "hw_counters/np_ecn_marked_roce_packets": "packets marked for congestion",
    "hw_counters/np_cnp_sent": "congestion notifications sent",
    "hw_counters/rp_cnp_handled": "congestion notifications received",
}
"""Counters of an RDMA port: file -> name. Not ``port_xmit_wait``, which counts ticks on every busy link."""


class NetworkSource:
    """Source of the counters of physical interfaces, RDMA ports and TCP, as counters of the host.

    Virtual interfaces are left out: their errors are those of the physical ones beneath.
    """

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()
        self._paths: dict[str, str] = {}

    def open(self) -> None:
        """Find the counters, so that reading touches only files that exist."""
        self._paths = {
            f"{part} {words}": path
            for part, folder, names in self._parts()
            for file, words in names.items()
            if self._files.exists(path := f"{folder}/{file}")
        }

    def read(self, counters: Asked) -> Reading:
        """Read the counters if those of the host are requested; one that cannot be read is left out."""
        if not asked(counters, HOST):
            return Reading()
        texts = {name: self._files.quick(path).strip() for name, path in self._paths.items()}
        found = {name: int(text) for name, text in texts.items() if text.isdecimal()}
        resent = resent_segments(self._files)
        if not math.isnan(resent):
            found[RESENT] = int(resent)
        return Reading(counters={HOST: found} if found else {})

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _parts(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Yield each interface and RDMA port: its name, its folder, and its counters."""
        for name in sorted(self._files.entries(_NET)):
            if self._files.exists(f"{_NET}/{name}/device"):
                yield name, f"{_NET}/{name}", _INTERFACE
        for name in sorted(self._files.entries(_RDMA)):
            ports = f"{_RDMA}/{name}/ports"
            for port in sorted(self._files.entries(ports)):
                yield f"{name} port {port}", f"{ports}/{port}", _PORT


def resent_segments(files: Files) -> float:
    """Return how many TCP segments this process's network namespace has sent again so far; nan if unknown.

    It is ``RetransSegs`` (``tcpRetransSegs`` of RFC 4022), over all connections of the namespace.

    Args:
        files: Where ``/proc`` is.
    """
    text = files.quick(_SNMP)
    rows = [line.split() for line in text.splitlines() if line.startswith(_TCP)]
    if len(rows) != 2 or _RESENT not in rows[0]:
        return math.nan
    count = dict(zip(*rows, strict=False)).get(_RESENT, "")
    return float(count) if count.isdecimal() else math.nan
