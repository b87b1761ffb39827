#!/usr/bin/env bash
# Lists the module's packages by what they cost to build, one import path a line. Packages whose code or tests reach
# k8s.io/kubernetes or k8s.io/kubectl are heavy: minutes on a cold cache, so they are built once, without cgo and -race.
# Suites, which start clusters (test/cluster), are in neither list.
#
# usage: packages.sh light    packages that are tested with -race and read by staticcheck
#        packages.sh heavy    heavy packages that have tests
#        packages.sh suites   suites of end-to-end tests
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:?usage: packages.sh light|heavy|suites}
export CGO_ENABLED=0
# With -test each package stands there up to four times: itself, "P [P.test]", "P_test [P.test]" and "P.test".
go list -test -f '{{.ImportPath}}|{{.ForTest}}|{{range .Deps}}{{.}} {{end}}' ./... | awk -F'|' -v want="$want" '
  { package = $2 != "" ? $2 : $1 }
  $2 == "" && $1 ~ /\.test$/ { package = substr($1, 1, length($1) - 5) }
  package ~ /\/test\// && $3 ~ /(^| )[^ ]*\/test\/cluster / && $1 != package { suite[package] = 1 }
  $1 != package { tested[package] = 1 }
  { seen[package] = 1 }
  $3 ~ /(^| )k8s\.io\/(kubernetes|kubectl)(\/| )/ { heavy[package] = 1 }
  END {
    for (package in seen)
      if (package in suite) { if (want == "suites") print package }
      else if (want == "suites") continue
      else if (want == "heavy" ? (package in heavy) && (package in tested) : !(package in heavy)) print package
  }' | sort
