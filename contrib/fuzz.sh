#!/usr/bin/env bash
# Runs every fuzz target of the light packages, one after another, for FUZZTIME each (30s). A finding fails the run and
# is kept by go under the package's testdata/fuzz, to be committed with the fix.
#
# usage: fuzz.sh
set -euo pipefail
cd "$(dirname "$0")/.."
for package in $(contrib/packages.sh light); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "    $target in $package"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$package"
  done
done
