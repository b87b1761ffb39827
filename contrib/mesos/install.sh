#!/usr/bin/env bash
# Installs a real Apache Mesos 1.11.0 (master, agent, containerizer launch helper, fetcher stand-in) into DIR, for
# development, tests and the demo. The native library comes whole inside the PyPI package mesos.scheduler 1.11.0;
# mesosd.cpp starts its master and agent. Nothing is written outside DIR (and DIR.partial, DIR.lock beside it) but
# the downloaded package, which is kept in ${XDG_CACHE_HOME:-~/.cache}/mesopod.
#
# The install is atomic: all is built in DIR.partial, tried once, and renamed. A finished install of these very sources
# is left alone; one of other sources is replaced. Only x86_64 Linux.
#
# usage: install.sh DIR      (about 10 s, 125 MB)
set -euo pipefail

version=1.11.0
egg_name=mesos.scheduler-$version-py2.7-linux-x86_64.egg
egg_sha256=4940ebb70894ee004cf8a12b7b66b52a351be1070ec2a4e6f7dae4ec04f8cb61
# The last line of setuptools that can fetch an egg by its name.
setuptools='setuptools==69.5.1 --hash=sha256:c636ac361bc47580504644275c9ad802c50415c7522212252c033bd15f301f32'

say() { echo "mesos: $*"; }
die() { echo "mesos: $*" >&2; exit 1; }

[ $# = 1 ] || { echo "usage: install.sh DIR" >&2; exit 2; }
case $1 in ''|/) die "'$1' is no folder to install into";; esac
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$(dirname "$1")"
dir=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
partial=$dir.partial
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mesopod
egg=$cache/$egg_name

# need_packages names every missing Debian package in one message, so that one apt-get mends all.
need_packages() {
  local missing=()
  command -v g++ >/dev/null || missing+=(g++)
  command -v nm >/dev/null || missing+=(binutils)
  command -v python3 >/dev/null || missing+=(python3)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  local libraries
  libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
  [[ $libraries == *libsvn_delta-1.so.1\ * ]] || missing+=(libsvn1)
  [[ $libraries == *libapr-1.so.0\ * ]] || missing+=(libapr1)
  [[ $libraries == *libsasl2.so.2\ * ]] || missing+=(libsasl2-2)
  [ ${#missing[@]} = 0 ] || die "missing Debian packages: ${missing[*]} (apt-get install -y ${missing[*]}, or make deps)"
}

# fetch_egg leaves the checked package in the cache, unless it is there already.
fetch_egg() {
  if [ -f "$egg" ] && echo "$egg_sha256  $egg" | sha256sum -c --status; then
    say "package $egg_name from the cache $cache"
    return
  fi
  say "downloading $egg_name (28 MB)"
  mkdir -p "$cache" "$partial/download"
  python3 -m venv "$partial/venv"
  echo "$setuptools" > "$partial/requirements.txt"
  "$partial/venv/bin/pip" install -q --disable-pip-version-check --require-hashes -r "$partial/requirements.txt" ||
    die "cannot install $setuptools, which fetches the Mesos package: is the package index within reach?"
  "$partial/venv/bin/python" -W ignore - "$partial/download" $version <<'PY' || die "download failed; try again"
import sys
from pkg_resources import Requirement
from setuptools.package_index import PackageIndex
folder, version = sys.argv[1:]
index = PackageIndex(python="2.7", platform="linux-x86_64")
if not index.fetch_distribution(Requirement.parse("mesos.scheduler==" + version), folder, force_scan=True):
    sys.exit(f"mesos: mesos.scheduler {version} (py2.7 linux-x86_64 egg) is not to be had from the package index")
PY
  echo "$egg_sha256  $partial/download/$egg_name" | sha256sum -c --status ||
    die "$egg_name as downloaded has another SHA-256 than the pinned $egg_sha256: not used"
  # Renamed within the cache's own file system, so that no reader sees half a file.
  cp "$partial/download/$egg_name" "$egg.$$"
  mv -f "$egg.$$" "$egg"
}

# build_stand_ins writes lib/: the library was linked against OpenSSL 1.0 and an old libcurl, which today's systems
# lack. Neither is used while TLS and the URI fetcher are off, so each gets a stand-in with the same versioned symbols,
# all of which return 0. (So: no TLS, no JWT and no SASL over TLS in this Mesos.)
build_stand_ins() {
  mkdir -p "$partial/tree/lib" "$partial/stand-ins"
  python3 - "$partial/tree" "$partial/stand-ins" <<'PY'
import collections, re, subprocess, sys
out, work = sys.argv[1:]
symbols = subprocess.run(["nm", "-D", out + "/libmesos.so"], capture_output=True, text=True, check=True).stdout
need = collections.defaultdict(lambda: collections.defaultdict(list))
for line in symbols.splitlines():
    m = re.match(r"\s+U (\w+)@+((?:OPENSSL|CURL)_\S+)$", line)
    if not m:
        continue
    name, version = m.groups()
    lib = ("libcurl.so.4" if version.startswith("CURL") else
           "libssl.so.1.0.0" if name.startswith(("SSL", "TLS")) else "libcrypto.so.1.0.0")
    need[lib][version].append(name)
for version in ("OPENSSL_1.0.0", "OPENSSL_1.0.1", "OPENSSL_1.0.2"):
    for lib in ("libssl.so.1.0.0", "libcrypto.so.1.0.0"):
        need[lib][version]  # the loader wants each version to be there, even one without symbols
for lib, versions in need.items():
    code, script, parent = "", "", ""
    for version, names in sorted(versions.items()):
        code += "".join(f"void *{n}(void) {{ return 0; }}\n" for n in names)
        script += f"{version} {{ {'global: ' + '; '.join(names) + ';' if names else ''} }} {parent};\n"
        parent = version
    open(f"{work}/{lib}.c", "w").write(code)
    open(f"{work}/{lib}.map", "w").write(script)
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", f"{out}/lib/{lib}",
                    f"{work}/{lib}.c", f"-Wl,-soname,{lib}", f"-Wl,--version-script,{work}/{lib}.map"], check=True)
PY
}

build_mesosd() {
  nm -D "$partial/tree/libmesos.so" > "$partial/symbols"
  local constructor
  constructor=$(grep -om1 '_ZN5mesos8internal5slave5SlaveC1E[^ ]*' "$partial/symbols") ||
    die "the library has no constructor of its agent: not the build that mesosd.cpp was written for"
  g++ -std=c++17 -O1 -Wall -rdynamic -DSLAVE_CONSTRUCTOR="\"$constructor\"" \
    -Wl,-rpath,'$ORIGIN/lib' -Wl,--disable-new-dtags -o "$partial/tree/mesosd" "$here/mesosd.cpp" -ldl
  for name in mesos-master mesos-agent mesos-containerizer; do ln -s mesosd "$partial/tree/$name"; done
  install -m 755 "$here/mesos-fetcher" "$partial/tree/mesos-fetcher"
}

# try loads the library with its stand-ins once: a missing system library shows here, not in the first test.
try() {
  local said
  said=$("$partial/tree/mesos-containerizer" version 2>&1) || true
  [[ $said == *"only 'launch' is supported"* ]] || die "the library does not load on this machine: $said"
}

exec 9> "$dir.lock"
flock 9
# What was installed is known by what it was made from, so a changed source installs anew.
identity="Mesos $version $(cat "$here/install.sh" "$here/mesosd.cpp" "$here/mesos-fetcher" | sha256sum | cut -d' ' -f1)"
if [ "$(cat "$dir/INSTALLED" 2>/dev/null)" = "$identity" ]; then
  say "$version is already installed in $dir"
  exit
fi
if [ -d "$dir" ] && [ ! -e "$dir/mesosd" ] && [ -n "$(ls -A "$dir")" ]; then
  die "$dir is not empty and holds no Mesos: name another folder"
fi
[ "$(uname -sm)" = "Linux x86_64" ] || die "the library is built for Linux on x86_64, this is $(uname -sm)"
need_packages
trap 'rm -rf "$partial"' EXIT
rm -rf "$partial"
mkdir -p "$partial/tree"
fetch_egg
say "unpacking the library"
python3 -m zipfile -e "$egg" "$partial/egg"
mv "$partial/egg/mesos/scheduler/_scheduler.so" "$partial/tree/libmesos.so"
say "building the stand-in libraries"
build_stand_ins
say "building mesosd"
build_mesosd
try
echo "$identity" > "$partial/tree/INSTALLED"
rm -rf "$dir"
mv "$partial/tree" "$dir"
say "installed $version in $dir"
