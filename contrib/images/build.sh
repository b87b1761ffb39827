#!/usr/bin/env bash
# Builds mesopod's own container images as archives that containerd imports, without a registry:
#   pause.tar    mesopod.local/pause:1     the sandbox of every pod
#   busybox.tar  mesopod.local/busybox:1   Debian's static busybox with all its commands, for the demo and the tests
#   web.tar      mesopod.local/web:1       the demo's web server (web/)
#   dns.tar      mesopod.local/dns:1       the cluster's DNS server, CoreDNS from its Go module (dns/); over a minute when cold
#
# usage: build.sh FOLDER
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

busybox=$(PATH=/bin:/usr/bin:$PATH command -v busybox || true)
if [ -z "$busybox" ] || readelf -lW "$busybox" | grep -q ' INTERP '; then
  echo "images: the busybox image needs the Debian package busybox-static (apt-get install busybox-static, or make deps)" >&2
  exit 1
fi

cd "$here/../.."
export CGO_ENABLED=0
go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/mesopod-image" ./cmd/mesopod-image
go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/web" ./contrib/images/web
"${CC:-gcc}" -O2 -Wall -Wextra -Werror -static -s -o "$work/pause" "$here/pause/pause.c"

image() { # NAME ARGUMENT...
  local name=$1
  shift
  "$work/mesopod-image" build --output "$out/$name.tar" --tag "mesopod.local/$name:1" "$@" | sed 's/^/    /'
}

image pause --add "$work/pause:/pause" --entrypoint /pause --user 65535:65535

commands=()
while read -r command; do
  [ "$command" = busybox ] || commands+=(--symlink "/bin/$command:busybox")
done < <("$busybox" --list)
base=(--add "$here/passwd:/etc/passwd" --add "$here/group:/etc/group" --dir /tmp:1777 --dir /root:0700)
image busybox --add "$busybox:/bin/busybox:0755" "${commands[@]}" "${base[@]}" \
  --env PATH=/bin:/sbin:/usr/bin:/usr/sbin --cmd sh

(cd "$here/dns" && go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/coredns" .)
image dns --add "$work/coredns:/coredns" "${base[@]}" --entrypoint /coredns

image web --add "$work/web:/web" "${base[@]}" --entrypoint /web
