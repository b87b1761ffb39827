package network

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// natTable is our table among nft's rules.
	natTable = "mesopod_pods"
	// nftLimit bounds one call of nft.
	nftLimit = 10 * time.Second
)

// CanMasquerade tells whether the machine has what masquerading needs.
func CanMasquerade() bool {
	_, err := exec.LookPath("nft")
	return err == nil
}

// nat gives packets of pods the node's address where they leave the ranges of pods: nobody outside knows the way back.
type nat struct {
	table string
	own   netip.Prefix
	keep  []string
	last  string
}

// prepare makes the rules, or leaves those of an earlier executor until all nodes are known.
func (n *nat) prepare(ctx context.Context) error {
	if exec.CommandContext(ctx, "nft", "list", "table", family(n.own), n.table).Run() == nil {
		return nil
	}
	return n.apply(ctx, []netip.Prefix{n.own})
}

// apply makes the rules in one transaction, if they are others than before.
func (n *nat) apply(ctx context.Context, pods []netip.Prefix) error {
	text := n.rules(pods)
	if text == n.last {
		return nil
	}
	if err := nft(ctx, text); err != nil {
		return err
	}
	n.last = text
	return nil
}

// rules are nft's input. The table is emptied and filled in one transaction; adding comes first as only what is there
// can be deleted.
func (n *nat) rules(pods []netip.Prefix) string {
	var keep []string
	for _, one := range pods {
		keep = append(keep, one.String())
	}
	keep = append(keep, n.keep...)
	slices.Sort(keep)
	f := family(n.own)
	multicast := "224.0.0.0/4"
	if f == "ip6" {
		multicast = "ff00::/8"
	}
	return fmt.Sprintf(`add table %[1]s %[2]s
delete table %[1]s %[2]s
table %[1]s %[2]s {
	set keep {
		type %[6]s_addr
		flags interval
		auto-merge
		elements = { %[3]s }
	}
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		%[1]s saddr %[4]s %[1]s daddr != @keep %[1]s daddr != %[5]s masquerade
	}
}
`, f, n.table, strings.Join(slices.Compact(keep), ", "), n.own, multicast, map[string]string{"ip": "ipv4", "ip6": "ipv6"}[f])
}

func (n *nat) remove(ctx context.Context) error { return removeNAT(ctx, family(n.own), n.table) }

func removeNAT(ctx context.Context, family, table string) error {
	return nft(ctx, fmt.Sprintf("add table %[1]s %[2]s\ndelete table %[1]s %[2]s\n", family, table))
}

func family(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "ip6"
	}
	return "ip"
}

func nft(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, nftLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(text)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
