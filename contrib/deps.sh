#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, those that are missing; does nothing else, and nothing at
# all when none is. Go itself, gcc, g++, make and git must be there already.
#
# usage: deps.sh
set -euo pipefail
packages=(
  libsvn1 libapr1 libsasl2-2 python3-venv     # the real Mesos (contrib/mesos)
  libseccomp-dev pkg-config                   # runc
  busybox-static                              # the busybox image
  iptables nftables iproute2 kmod             # CNI plugins, kube-proxy, local mode's networks
  util-linux procps                           # mount, nsenter, ps in tests
  jq curl                                     # demo and scripts
  zookeeper default-jre-headless              # finding masters, in tests
)
for tool in go gcc g++ make git python3; do
  command -v "$tool" >/dev/null || { echo "deps: $tool is missing; install it first (Go 1.26 or newer from https://go.dev/dl)" >&2; exit 1; }
done
if ! command -v dpkg-query >/dev/null; then
  echo "deps: this is no Debian; needed here are the equivalents of: ${packages[*]}" >&2
  exit 1
fi
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "    all ${#packages[@]} Debian packages are installed"
  exit
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deps: run as root: apt-get install -y ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "    installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null; }
apt update
apt install -y --no-install-recommends "${missing[@]}" >/dev/null
