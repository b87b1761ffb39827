package proxy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// The mode follows the programs of the machine, unless the operator said one; what is missing is named.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		mode     Mode
		programs string
		want     Mode
		kind     error
		fault    string
	}{
		{ModeAuto, "nft iptables", ModeNFTables, nil, ""},
		{ModeAuto, "iptables", ModeIPTables, nil, ""},
		{ModeAuto, "", "", errdefs.ErrNotFound, "proxyMode: none"},
		{ModeNone, "", ModeNone, nil, ""},
		{ModeIPTables, "nft iptables", ModeIPTables, nil, ""},
		{ModeIPTables, "nft", "", errdefs.ErrNotFound, "package iptables"},
		{ModeNFTables, "iptables", "", errdefs.ErrNotFound, "package nftables"},
		{"ipvs", "nft", "", errdefs.ErrInvalid, "ipvs"},
	} {
		got, err := choose(c.mode, func(program string) (string, error) {
			if slices.Contains(strings.Fields(c.programs), program) {
				return "/sbin/" + program, nil
			}
			return "", os.ErrNotExist
		})
		if got != c.want || !errors.Is(err, c.kind) || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q with %q: %q, %v", c.mode, c.programs, got, err)
		}
	}
}

func TestNewTellsAllFaults(t *testing.T) {
	_, err := New(Config{Mode: ModeNone, PodCIDR: "pods"}, nil)
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Fatalf("%v is not ErrInvalid", err)
	}
	for _, part := range []string{`mode "none"`, "name of the node", "node address", "pod range", "health port 0", "mark"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}
