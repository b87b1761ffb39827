#!/usr/bin/env bash
# Builds the container runtime that the executor brings along, from the Go modules pinned in the go.mod and go.sum
# beside this script: containerd, its runc shim and its client ctr (which imports images), runc, and the CNI plugins
# bridge, host-local, loopback and portmap.
# All of them are static programs, so one bundle runs on any x86_64 Linux. runc alone needs cgo (its first steps are
# C, and seccomp filters come from libseccomp), hence a C compiler and Debian's libseccomp-dev.
#
# usage: build.sh BUNDLE           into BUNDLE/ and BUNDLE/cni/
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
containerd=github.com/containerd/containerd/v2
plugins=github.com/containernetworking/plugins

[ $# = 1 ] || { echo "usage: build.sh BUNDLE" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)

# The files are moved into place when all are built, so an interrupted build leaves no half bundle behind.
work=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$here"

module_version() { go list -m -f '{{.Version}}' "$1"; }

# build OUTPUT LDFLAGS PACKAGE [TAGS]
build() {
  echo "    $(basename "$1")"
  mkdir -p "$(dirname "$work/$1")"
  go build -buildvcs=false -trimpath -tags "${4:-}" -ldflags "-s -w $2" -o "$work/$1" "$3"
}

export CGO_ENABLED=0 GOOS=linux
containerd_version=$(module_version "$containerd")
# containerd reports these to its clients; the kubelet shows them as the node's container runtime version.
stamp="-X $containerd/version.Version=$containerd_version -X $containerd/version.Revision=module"

if ! command -v "${CC:-gcc}" >/dev/null; then echo "build.sh: no C compiler (apt-get install gcc libc6-dev)" >&2; exit 1; fi
if ! printf '#include <seccomp.h>\n' | "${CC:-gcc}" -E - >/dev/null 2>&1; then
  echo "build.sh: runc needs the Debian package libseccomp-dev (apt-get install libseccomp-dev, or make deps)" >&2; exit 1
fi

echo "    modules"
go mod download
build containerd "$stamp" "$containerd/cmd/containerd"
build ctr "$stamp" "$containerd/cmd/ctr"
build containerd-shim-runc-v2 "$stamp" "$containerd/cmd/containerd-shim-runc-v2"
cni_stamp="-X $plugins/pkg/utils/buildversion.BuildVersion=$(module_version "$plugins")"
build cni/bridge "$cni_stamp" "$plugins/plugins/main/bridge"
build cni/loopback "$cni_stamp" "$plugins/plugins/main/loopback"
build cni/host-local "$cni_stamp" "$plugins/plugins/ipam/host-local"
build cni/portmap "$cni_stamp" "$plugins/plugins/meta/portmap"
# runc carries its version in a file of its module. netgo and osusergo keep the C library's resolver, which cannot be
# linked statically, out of the program.
CGO_ENABLED=1 build runc '-linkmode external -extldflags -static' github.com/opencontainers/runc 'seccomp netgo osusergo'

for program in containerd containerd-shim-runc-v2 ctr runc cni/bridge cni/loopback cni/host-local cni/portmap; do
  # An ELF program without an interpreter segment is static; a dynamic one would fail on hosts with another C library.
  if readelf -lW "$work/$program" | grep -q ' INTERP '; then
    echo "build.sh: $program is not static" >&2; exit 1
  fi
done
mkdir -p "$out/cni"
for program in containerd containerd-shim-runc-v2 ctr runc cni/bridge cni/loopback cni/host-local cni/portmap; do
  mv -f "$work/$program" "$out/$program"
  touch "$out/$program"
done
