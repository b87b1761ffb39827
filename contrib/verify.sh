#!/usr/bin/env bash
# Checks that what is derived agrees with what it is derived from: go.mod and go.sum of every module, the lists of what
# the programs link and under which licences, and the files that go generate writes.
set -euo pipefail
cd "$(dirname "$0")/.."
for module in . contrib/runtime contrib/images/dns contrib/lint; do
  echo "    go mod tidy -diff in $module"
  (cd "$module" && go mod tidy -diff) || { echo "verify: run go mod tidy in $module" >&2; exit 1; }
done
echo "    docs/deps"
contrib/deps-list.sh --check
echo "    THIRD_PARTY.md"
go run ./contrib/third-party -check
echo "    go generate"
state() { git -c safe.directory='*' status --porcelain; git -c safe.directory='*' diff | sha256sum; }
before=$(state)
go generate ./...
after=$(state)
if [ "$before" != "$after" ]; then
  printf 'verify: go generate changed files; commit what it writes:\n%s\n' "$after" >&2
  exit 1
fi
