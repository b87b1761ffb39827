package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// claimLimit is what an executor before us, of another framework perhaps, gets to end its pods and go.
const claimLimit = 90 * time.Second

// Claim makes sure that the bridge of our pods and their range are nobody else's in this network namespace: two executors that
// give the same addresses to pods, or remove each other's bridge, would be found out late. The claim lasts until it is
// closed, or the process ends. Errors are errdefs.ErrConflict where somebody has the one or the other.
func Claim(ctx context.Context, bridge, pods string) (net.Listener, error) {
	return claimWithin(ctx, claimLimit, bridge, pods)
}

func claimWithin(ctx context.Context, limit time.Duration, bridge, pods string) (net.Listener, error) {
	own, err := netip.ParsePrefix(pods)
	if err != nil {
		return nil, fmt.Errorf("pod range: %w: %w", errdefs.ErrInvalid, err)
	}
	if err := checkRange(bridge, own); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	claim, err := Lock(waiting, "mesopod-bridge-"+bridge, func() {})
	if err == nil && claim == nil && ctx.Err() == nil {
		err = fmt.Errorf("bridge %s is another executor's in this network namespace: each needs a bridge and a range of its own "+
			"(bridge and podCIDR, or MESOPOD_BRIDGE and MESOPOD_POD_CIDR): %w", bridge, errdefs.ErrConflict)
	}
	return claim, err
}

// checkRange looks for a link of somebody else's with an address out of our range, and for other bridges, which have
// containers on them, with a network that overlaps with it. That our range lies in the agents' own large network is fine.
func checkRange(bridge string, own netip.Prefix) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, one := range links {
		name := one.Attrs().Name
		if name == bridge || name == tunnelLink {
			continue
		}
		addresses, err := netlink.AddrList(one, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list addresses of %s: %w", name, err)
		}
		for _, a := range addresses {
			address, ok := netip.AddrFromSlice(a.IP)
			if !ok {
				continue
			}
			bits, _ := a.Mask.Size()
			theirs := netip.PrefixFrom(address.Unmap(), bits)
			if own.Contains(theirs.Addr()) || one.Type() == "bridge" && theirs.Overlaps(own) {
				return fmt.Errorf("pod range %s overlaps with %s of link %s: give the node another range (MESOPOD_POD_CIDR, or that of the Node): %w",
					own, theirs.Masked(), name, errdefs.ErrConflict)
			}
		}
	}
	return nil
}
