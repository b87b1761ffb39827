#!/usr/bin/env bash
# Reads all Go code: gofmt, go vet on every package, staticcheck (pinned in contrib/lint) on the light ones. Staticcheck
# reads every dependency from source, which for all of Kubernetes takes longer than the tests.
#
# usage: lint.sh TOOLS      staticcheck is built into the folder TOOLS
set -euo pipefail
[ $# = 1 ] || { echo "usage: lint.sh TOOLS" >&2; exit 2; }
mkdir -p "$1"
tools=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

echo "    gofmt"
badly=$(find . \( -path ./bin -o -path ./.git -o -name testdata \) -prune -o -name '*.go' -print0 | xargs -0 gofmt -s -l)
if [ -n "$badly" ]; then
  printf 'lint: not formatted (gofmt -s -w FILE):\n%s\n' "$badly" >&2
  exit 1
fi
echo "    shell syntax"
while IFS= read -r script; do bash -n "$script"; done < <(find contrib .ci -type f \( -name '*.sh' -o -path '.ci/run' -o -path 'contrib/hooks/*' \))
echo "    go vet"
go vet ./...
go vet -tags agent ./cmd/mesopod
echo "    staticcheck"
(cd contrib/lint && go build -buildvcs=false -o "$tools/staticcheck" honnef.co/go/tools/cmd/staticcheck)
contrib/packages.sh light | xargs "$tools/staticcheck"
