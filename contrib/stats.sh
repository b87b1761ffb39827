#!/usr/bin/env bash
# Counts the project's own Go lines by folder, tests apart, and names files that outgrew the house style's 400 lines.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -- '*.go' | while IFS= read -r file; do
  [ -f "$file" ] && printf '%s %s\n' "$(wc -l < "$file")" "$file"
done | awk '
  {
    folder = $2
    if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
    files[folder]++
    if ($2 ~ /_test\.go$/) tests[folder] += $1; else code[folder] += $1
    if ($2 ~ /_test\.go$/) allTests += $1; else all += $1
    if ($1 > 400) long[++n] = sprintf("%6d %s", $1, $2)
  }
  END {
    printf "%-40s %6s %8s %8s\n", "folder", "files", "code", "tests"
    for (folder in files)
      printf "%-40s %6d %8d %8d\n", folder, files[folder], code[folder], tests[folder] | "sort"
    close("sort")
    printf "%-40s %6s %8d %8d\n", "total", "", all, allTests
    if (n) print "\nover 400 lines:"
    for (i = 1; i <= n; i++) print long[i]
  }'
