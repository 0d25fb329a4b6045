#!/bin/sh
# Prolog of slurm.conf: a job is not to start on a node whose last verdict is "rejected". Without ANUBIS_PROLOG=enforce in
# /etc/anubis/launch.conf it only says so in the log of slurmd. It reads one small file; nothing long belongs into a
# prolog. A prolog that fails makes Slurm drain the node and queue the job again: so it calls no scontrol itself.
#
#   Prolog=/etc/anubis/prolog.sh
set -u
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin} # slurmd gives none
export PATH
conf=${ANUBIS_CONF:-/etc/anubis/launch.conf}
[ -r "$conf" ] || exit 0
# shellcheck source=/dev/null
. "$conf"
node=${SLURMD_NODENAME:-$(hostname -s)}
said=$(timeout 15 "${ANUBIS_PYTHON:-python3}" -m pytest_anubis health --node "$node" --store "$ANUBIS_RESULTS/$node")
code=$?
echo "anubis: $said" >&2
# 20 (no verdict yet) and whatever else is no reason to refuse a job. A Python that cannot start also ends with 1, and says
# nothing.
if [ "$code" = 1 ] && [ -n "$said" ] && [ "${ANUBIS_PROLOG:-}" = enforce ]; then exit 1; fi
exit 0
