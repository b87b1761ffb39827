#!/usr/bin/env bash
# Runs one step of a build with its name before and its seconds after, and a sign of life each minute, since a cold build
# of Kubernetes says nothing for several.
#
# usage: step.sh NAME COMMAND...
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: step.sh NAME COMMAND..." >&2; exit 2; }
name=$1
shift
echo "==> $name"
alive() {
  local nap=
  trap 'kill "$nap" 2>/dev/null; exit 0' TERM
  while kill -0 $$ 2>/dev/null; do
    # The sleep must not keep the log's pipe open when the step is over.
    sleep 60 >/dev/null 2>&1 </dev/null &
    nap=$!
    wait "$nap"
    echo "    $name: ${SECONDS}s so far"
  done
}
alive &
alive=$!
trap 'kill "$alive" 2>/dev/null || true' EXIT
status=0
"$@" || status=$?
if [ "$status" = 0 ]; then
  echo "==> $name done in ${SECONDS}s"
else
  echo "==> $name FAILED after ${SECONDS}s (status $status)" >&2
fi
exit "$status"
