#!/bin/sh
# HealthCheckProgram of slurm.conf: says from the node's last verdict whether it is fit. It measures nothing, and it does
# nothing either unless /etc/anubis/launch.conf says ANUBIS_ACT=drain (a rejected node is drained) or drain-resume (one
# that is accepted again is resumed, if it was drained here). What others drained is left alone.
#
#   HealthCheckProgram=/etc/anubis/healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY
set -u
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin} # slurmd gives none
export PATH
conf=${ANUBIS_CONF:-/etc/anubis/launch.conf}
[ -r "$conf" ] || exit 0
# shellcheck source=/dev/null
. "$conf"
node=${SLURMD_NODENAME:-$(hostname -s)}
# Slurm ends a health check after 60 seconds; a share that hangs shall not hold it up that long.
said=$(timeout 30 "${ANUBIS_PYTHON:-python3}" -m pytest_anubis health --node "$node" \
  --store "$ANUBIS_RESULTS/$node" ${ANUBIS_MAX_AGE:+--max-age "$ANUBIS_MAX_AGE"} ${ANUBIS_ACT:+--act "$ANUBIS_ACT"} \
  2>&1)
logger -t anubis-health -- "$node: $said" 2>/dev/null
[ -z "${ANUBIS_LOG:-}" ] || echo "$node: $said" >>"$ANUBIS_LOG"
exit 0 # Slurm only logs what a health check ends with
