#!/usr/bin/env bash
# Builds mesopod and mesopod-keeper, static and with versions stamped in. A cold build takes several minutes: it
# compiles the kubelet, kube-scheduler, kube-apiserver and etcd.
#
# usage: build.sh BUNDLE
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh BUNDLE" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
# In CI the clone may belong to another user; git then answers only with this.
git() { command git -c safe.directory='*' "$@"; }

version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The commit's date, not today's: the same commit gives the same program.
date=$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
major=${kubernetes#v} major=${major%%.*}
minor=${kubernetes#v*.} minor=${minor%%.*}

# API server and kubelet tell the Kubernetes version as theirs; without it they would be v0.0.0, which others refuse.
cli=github.com/mesopod/mesopod/cmd/internal/cli
stamps="-X $cli.Version=$version -X $cli.Commit=$commit -X $cli.Date=$date"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamps+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=$major -X $package.gitMinor=$minor"
  stamps+=" -X $package.gitTreeState=clean -X $package.gitCommit=$commit -X $package.buildDate=$date"
done

# No -trimpath: with it every package of Kubernetes would be compiled a second time for the tests.
export CGO_ENABLED=0
# program, folder, tags. mesopod-executor is mesopod without what agents do not need (ADR 024).
for build in mesopod-keeper:mesopod-keeper: mesopod:mesopod: mesopod-executor:mesopod:agent; do
  IFS=: read -r program folder tags <<<"$build"
  echo "    $program $version"
  go build -buildvcs=false -tags "$tags" -ldflags "-s -w $stamps" -o "$out/.$program.new" "./cmd/$folder"
  # Renamed: a program that runs can be replaced but not written to.
  mv -f "$out/.$program.new" "$out/$program"
done
