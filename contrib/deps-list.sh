#!/usr/bin/env bash
# Writes docs/deps/PROGRAM.txt for each program under cmd: the modules that are linked into it on linux/amd64, so that
# what a change brings along is seen in review. With --check nothing is written, and a list that differs is an error.
#
# usage: deps-list.sh [--check]
set -euo pipefail
case "${1-}" in '' | --check) ;; *) echo "usage: deps-list.sh [--check]" >&2; exit 2 ;; esac
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOOS=linux GOARCH=amd64
export LC_ALL=C # for one order everywhere
lists=docs/deps
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

programs=$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/...)
for program in $programs; do
  modules=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}{{else}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}' "$program")
  # A program of ours alone has an empty list.
  { sort -u | sed '/^$/d'; } <<<"$modules" > "$new/${program##*/}.txt"
done
if [ "${1-}" = --check ]; then
  diff -ruN "$lists" "$new" >&2 || { echo "deps-list: what the programs link differs from $lists (- listed, + linked); if that is meant, run contrib/deps-list.sh" >&2; exit 1; }
else
  mkdir -p "$lists"
  rm -f "$lists"/*.txt
  cp "$new"/*.txt "$lists"
  wc -l "$lists"/*.txt | sed '/ total$/d; s/^/    /'
fi
