package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/golang/glog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/executor/network/plan"
	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	// tunnelLink is the name of the tunnel's device, tunnelID its number on the wire, tunnelPort its UDP port (IANA's).
	tunnelLink = "mpodvx0"
	tunnelID   = 89
	tunnelPort = 4789
	// protocol marks our routes, as `ip route` shows them: "proto 89".
	protocol = netlink.RouteProtocol(89)
)

// link is the network device that has the node's address.
type link struct {
	index, mtu int
	network    netip.Prefix
}

// findLink looks for an address of this network namespace.
func findLink(address netip.Addr) (link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return link{}, fmt.Errorf("list links: %w", err)
	}
	for _, one := range links {
		addresses, err := netlink.AddrList(one, netlink.FAMILY_ALL)
		if err != nil {
			return link{}, fmt.Errorf("list addresses of %s: %w", one.Attrs().Name, err)
		}
		for _, a := range addresses {
			if found, ok := netip.AddrFromSlice(a.IP); ok && found.Unmap() == address {
				bits, _ := a.Mask.Size()
				return link{index: one.Attrs().Index, mtu: one.Attrs().MTU, network: netip.PrefixFrom(address, bits).Masked()}, nil
			}
		}
	}
	return link{}, fmt.Errorf("node address %s is on no link of this machine: set nodeIP: %w", address, errdefs.ErrInvalid)
}

// device carries plans out.
type device struct {
	link   link
	own    plan.Node
	tunnel bool
}

func (d *device) mtu() int {
	if d.tunnel {
		return d.link.mtu - plan.VXLANOverhead
	}
	return d.link.mtu
}

// sysctls are what routing between pods and nodes, and Services among the pods of one bridge, rest on.
var sysctls = map[string]string{
	"/proc/sys/net/ipv4/ip_forward":                "1",
	"/proc/sys/net/bridge/bridge-nf-call-iptables": "1",
}

// prepare makes what does not depend on other nodes.
func (d *device) prepare() error {
	for path, value := range sysctls {
		if now, err := os.ReadFile(path); err == nil && string(now) == value+"\n" {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("set sysctl: %w", err)
			}
			glog.Warningf("skip sysctl path=%s reason=%q", path, "the kernel lacks it: load br_netfilter, or Services do not reach pods of the same agent")
		}
	}
	if !d.tunnel {
		return removeTunnel()
	}
	_, err := d.openTunnel()
	return err
}

// openTunnel makes the tunnel's device, or takes over the one of an earlier executor if it is the same.
func (d *device) openTunnel() (netlink.Link, error) {
	mac := plan.MAC(d.own.Address)
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: tunnelLink, MTU: d.mtu(), HardwareAddr: mac[:]},
		VxlanId:   tunnelID, Port: tunnelPort, VtepDevIndex: d.link.index, SrcAddr: d.own.Address.AsSlice(), Learning: false,
	}
	if old, err := netlink.LinkByName(tunnelLink); err == nil && !sameTunnel(old, want) {
		if err := removeTunnel(); err != nil {
			return nil, err
		}
	}
	if err := netlink.LinkAdd(want); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make tunnel %s (does the kernel have VXLAN?): %w", tunnelLink, err)
	}
	made, err := netlink.LinkByName(tunnelLink)
	if err != nil {
		return nil, fmt.Errorf("find tunnel %s: %w", tunnelLink, err)
	}
	address := plan.TunnelAddress(d.own.Pods)
	if err := netlink.AddrReplace(made, &netlink.Addr{IPNet: host(address)}); err != nil {
		return nil, fmt.Errorf("give tunnel %s address %s: %w", tunnelLink, address, err)
	}
	if err := netlink.LinkSetUp(made); err != nil {
		return nil, fmt.Errorf("set tunnel %s up: %w", tunnelLink, err)
	}
	return made, nil
}

func sameTunnel(old netlink.Link, want *netlink.Vxlan) bool {
	have, ok := old.(*netlink.Vxlan)
	return ok && have.VxlanId == want.VxlanId && have.Port == want.Port && have.VtepDevIndex == want.VtepDevIndex &&
		have.SrcAddr.Equal(want.SrcAddr) && have.Attrs().MTU == want.MTU && slices.Equal(have.Attrs().HardwareAddr, want.HardwareAddr)
}

func removeTunnel() error {
	old, err := netlink.LinkByName(tunnelLink)
	if err != nil {
		if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
			return nil
		}
		return fmt.Errorf("find tunnel %s: %w", tunnelLink, err)
	}
	if err := netlink.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove tunnel %s: %w", tunnelLink, err)
	}
	return nil
}

// apply makes the routes, and the tunnel's neighbours, those of the plan.
func (d *device) apply(p plan.Plan) error {
	out := d.link.index
	var errs []error
	if d.tunnel {
		tunnel, err := d.openTunnel()
		if err != nil {
			return err
		}
		out = tunnel.Attrs().Index
		errs = append(errs, setPeers(out, p.Peers))
	}
	have, err := ourRoutes()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var routes []plan.Route
	for _, one := range have {
		if one.LinkIndex == out {
			routes = append(routes, routeOf(one))
		}
	}
	remove, set := plan.Changes(routes, p.Routes)
	for _, one := range set {
		glog.Infof("set route pods=%s via=%s", one.Pods, one.Via)
		err := netlink.RouteReplace(&netlink.Route{
			Dst: network(one.Pods), Gw: one.Via.AsSlice(), LinkIndex: out, Protocol: protocol, Flags: d.flags(),
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("set route to pods %s via %s: %w", one.Pods, one.Via, err))
		}
	}
	for _, one := range remove {
		glog.Infof("remove route pods=%s via=%s reason=%q", one.Pods, one.Via, "no node has this range")
		err := netlink.RouteDel(&netlink.Route{Dst: network(one.Pods), LinkIndex: out, Protocol: protocol})
		if err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route to pods %s: %w", one.Pods, err))
		}
	}
	return errors.Join(errs...)
}

// flags: the other end of a tunnel is in no network of ours.
func (d *device) flags() int {
	if d.tunnel {
		return int(netlink.FLAG_ONLINK)
	}
	return 0
}

// remove takes back what apply and prepare made, but sysctls: others may rest on them by now.
func (d *device) remove() error {
	have, err := ourRoutes()
	errs := []error{err}
	for _, one := range have {
		if err := netlink.RouteDel(&one); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route to pods %s: %w", one.Dst, err))
		}
	}
	return errors.Join(append(errs, removeTunnel())...)
}

func ourRoutes() ([]netlink.Route, error) {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return have, nil
}

func routeOf(r netlink.Route) plan.Route {
	var one plan.Route
	one.Via, _ = netip.AddrFromSlice(r.Gw)
	one.Via = one.Via.Unmap()
	if r.Dst != nil {
		address, _ := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		one.Pods = netip.PrefixFrom(address.Unmap(), bits)
	}
	return one
}

// setPeers tells the kernel the ends of the tunnel: nobody learns or asks for them on the wire.
func setPeers(index int, peers []plan.Peer) error {
	var errs []error
	have := map[string]bool{}
	for _, peer := range peers {
		have[net.HardwareAddr(peer.MAC[:]).String()] = true
		for _, entry := range []netlink.Neigh{
			{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: peer.Tunnel.AsSlice(), HardwareAddr: peer.MAC[:]},
			{LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: peer.Address.AsSlice(), HardwareAddr: peer.MAC[:]},
		} {
			if err := netlink.NeighSet(&entry); err != nil {
				errs = append(errs, fmt.Errorf("tell tunnel of node %s: %w", peer.Address, err))
			}
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_BRIDGE} {
		entries, err := netlink.NeighList(index, family)
		if err != nil {
			errs = append(errs, fmt.Errorf("list ends of the tunnel: %w", err))
		}
		for _, entry := range entries {
			if entry.State&netlink.NUD_PERMANENT == 0 || have[entry.HardwareAddr.String()] {
				continue
			}
			if err := netlink.NeighDel(&entry); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("forget end %s of the tunnel: %w", entry.IP, err))
			}
		}
	}
	return errors.Join(errs...)
}

func host(a netip.Addr) *net.IPNet { return network(netip.PrefixFrom(a, a.BitLen())) }

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
