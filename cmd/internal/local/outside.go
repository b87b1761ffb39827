package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// natTable is our table in nft's rules of the machine.
const natTable = "mesopod_local"

// openOutside lets the agent and its pods reach what this machine reaches, image registries above all: packets that
// leave the subnet take this machine's address. A cluster works without, with the images of the bundle.
func openOutside(ctx context.Context, a addresses) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("program nft is missing (package nftables)")
	}
	rules := fmt.Sprintf(`table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority 100;
		ip saddr %[2]s ip daddr != %[2]s masquerade
	}
}
`, natTable, a.subnet)
	if err := nft(ctx, rules); err != nil {
		return err
	}
	// saveHost has recorded what it was.
	if err := os.WriteFile(sysctlPath("net.ipv4.ip_forward"), []byte("1"), 0); err != nil {
		return fmt.Errorf("switch IP forwarding on: %w", err)
	}
	return nil
}

// closeOutside removes our table, if it is there.
func closeOutside() error {
	ctx := context.Background()
	if _, err := exec.LookPath("nft"); err != nil {
		return nil // then nothing was added
	}
	if exec.CommandContext(ctx, "nft", "list", "table", "ip", natTable).Run() != nil {
		return nil // no such table, or a kernel without tables
	}
	return nft(ctx, "delete table ip "+natTable+"\n")
}

// nft gives rules to nft.
func nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
