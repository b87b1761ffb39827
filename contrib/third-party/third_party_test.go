package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	apache = "                                 Apache License\n                           Version 2.0, January 2004\n"
	mit    = "The MIT License (MIT)\n\nPermission is hereby granted, free of charge, to any person obtaining a\ncopy of this software"
	isc    = "Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee"
	bsd2   = "> Redistribution and use in source and binary forms, with or without\n> modification, are permitted"
	bsd3   = bsd2 + " provided ... may be used to endorse or promote products"
	bsd4   = bsd3 + " All advertising materials mentioning features"
	mpl    = "Mozilla Public License Version 2.0\n===\n means either the GNU General Public License, Version 2.0"
	gpl    = "GNU GENERAL PUBLIC LICENSE\nVersion 2, June 1991"
	agpl   = "GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3"
)

func TestLicenceOf(t *testing.T) {
	for _, test := range []struct {
		name, licence, notice, fault string
		files                        []string
	}{
		{name: "apache with notice", files: []string{"LICENSE", apache, "NOTICE.txt", "thanks"}, licence: "Apache-2.0", notice: "NOTICE.txt"},
		{name: "mit", files: []string{"LICENSE.MIT", mit}, licence: "MIT"},
		{name: "isc", files: []string{"licence.md", isc}, licence: "ISC"},
		{name: "two clauses", files: []string{"COPYING", bsd2}, licence: "BSD-2-Clause"},
		{name: "three clauses", files: []string{"LICENSE", bsd3}, licence: "BSD-3-Clause"},
		{name: "mozilla names gnu", files: []string{"LICENSE", mpl}, licence: "MPL-2.0"},
		{name: "two in one file", files: []string{"LICENSE", mit + apache}, licence: "Apache-2.0 AND MIT"},
		{name: "two files", files: []string{"LICENSE.BSD", bsd3, "LICENSE.MPL-2.0", mpl, "COPYING.md", bsd3}, licence: "BSD-3-Clause AND MPL-2.0"},
		{name: "that of the documentation", files: []string{"LICENSE", apache, "LICENSE.docs", "Creative Commons"}, licence: "Apache-2.0"},
		{name: "a package named license", files: []string{"license.go", "package a", "LICENSE/x", mit, "COPYING", apache}, licence: "Apache-2.0"},
		{name: "none", files: []string{"README.md", mit}, fault: "no licence file"},
		{name: "unknown", files: []string{"LICENSE", "Do what you want."}, fault: "LICENSE: the licence is not recognised"},
		{name: "one of two unknown", files: []string{"LICENSE", mit, "LICENSE.other", "Ask me."}, fault: "LICENSE.other"},
		{name: "gnu", files: []string{"COPYING", gpl}, fault: "GNU"},
		{name: "gnu beside mit", files: []string{"LICENSE", mit + gpl}, fault: "GNU"},
		{name: "affero", files: []string{"LICENSE", agpl}, fault: "GNU"},
		{name: "advertising", files: []string{"LICENSE", bsd4}, fault: "advertising"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for i := 0; i < len(test.files); i += 2 {
				fsys[test.files[i]] = &fstest.MapFile{Data: []byte(test.files[i+1])}
			}
			licence, notice, err := licenceOf(fsys)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("got %q and error %v, want an error with %q", licence, err, test.fault)
				}
				return
			}
			if err != nil || licence != test.licence || notice != test.notice {
				t.Errorf("got %q, %q, error %v, want %q, %q", licence, notice, err, test.licence, test.notice)
			}
		})
	}
}

func TestParse(t *testing.T) {
	got, err := parse("b v1 /b c\n\na v2 /a\nb v1 /b c\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []module{{"a", "v2", "/a"}, {"b", "v1", "/b c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(module{})); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "a v1 \n"} {
		if got, err := parse(bad); err == nil {
			t.Errorf("parse(%q) = %v, want an error", bad, got)
		}
	}
}
