package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// licenceOf returns the SPDX expression of the licence files at the top of a module, and the name of its NOTICE file,
// empty if it has none. Several licences are joined by AND, since parts of the module are under each.
func licenceOf(module fs.FS) (licence, notice string, err error) {
	entries, err := fs.ReadDir(module, ".")
	if err != nil {
		return "", "", err
	}
	var found []string
	var files int
	for _, entry := range entries {
		name := strings.ToLower(entry.Name())
		stem, _, _ := strings.Cut(name, ".")
		switch {
		case entry.IsDir() || path.Ext(name) == ".docs" || path.Ext(name) == ".go": // documentation has a licence of its own
			continue
		case stem == "notice":
			notice = entry.Name()
			continue
		case !slices.Contains([]string{"license", "licence", "copying", "unlicense", "license-mit", "license-apache"}, stem):
			continue
		}
		text, err := fs.ReadFile(module, entry.Name())
		if err != nil {
			return "", "", err
		}
		files++
		names, err := recognise(string(text))
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", entry.Name(), err)
		}
		found = append(found, names...)
	}
	if files == 0 {
		return "", "", errors.New("no licence file")
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND "), notice, nil
}

var notWord = regexp.MustCompile(`[^a-z0-9]+`)

// A sentence of each licence that the others do not have, in small letters and with single spaces for all else.
var sentences = []struct{ spdx, sentence string }{
	{"Apache-2.0", "apache license version 2 0"},
	{"ISC", "permission to use copy modify and or distribute this software for any purpose"},
	{"ISC", "permission to use copy modify and distribute this software for any purpose"},
	{"MIT", "permission is hereby granted free of charge to any person obtaining a copy"},
	{"MPL-2.0", "mozilla public license version 2 0"},
}

// recognise returns the SPDX identifiers of the licences that a file holds: those that may be linked into our programs.
func recognise(text string) ([]string, error) {
	words := notWord.ReplaceAllString(strings.ToLower(text), " ")
	var found []string
	for _, s := range sentences {
		if strings.Contains(words, s.sentence) {
			found = append(found, s.spdx)
		}
	}
	if strings.Contains(words, "redistribution and use in source and binary forms") {
		switch {
		case strings.Contains(words, "all advertising materials"):
			return nil, errors.New("BSD with the advertising clause; it must not be linked")
		case strings.Contains(words, "endorse or promote"):
			found = append(found, "BSD-3-Clause")
		default:
			found = append(found, "BSD-2-Clause")
		}
	}
	// MPL-2.0 names the GNU licences as those one may change to.
	if strings.Contains(words, "gnu") && strings.Contains(words, "general public license") && !slices.Contains(found, "MPL-2.0") {
		return nil, errors.New("a GNU licence; it must not be linked without a look at it")
	}
	if len(found) == 0 {
		return nil, errors.New("the licence is not recognised; look at it, and teach contrib/third-party its text")
	}
	return found, nil
}
