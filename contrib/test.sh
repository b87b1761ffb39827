#!/usr/bin/env bash
# Runs the named make targets one after another, stops at the first that fails, and ends with a table of what ran and
# how long it took, in either case.
#
# usage: test.sh TARGET...
set -uo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
rows=()
failed=
for part in "$@"; do
  if [ -n "$failed" ]; then
    rows+=("$(printf '%-12s %6s  not run' "$part" -)")
    continue
  fi
  begin=$SECONDS
  if "$make" --no-print-directory "$part"; then
    verdict=ok
  else
    verdict=FAILED failed=$part
  fi
  rows+=("$(printf '%-12s %6d  %s' "$part" $((SECONDS - begin)) "$verdict")")
done
printf '\n%-12s %6s  %s\n' part seconds result
printf '%s\n' "${rows[@]}"
result=ok
[ -z "$failed" ] || result="FAILED in $failed"
printf '%-12s %6d  %s\n' total "$SECONDS" "$result"
[ -z "$failed" ]
