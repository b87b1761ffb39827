package local

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// buildNetwork makes the bridge in this namespace, and each agent's namespace with its link to it. This machine, which is
// no node, reaches pods through their agent's address; the agents' executors find the way to each other's by themselves.
func buildNetwork(l layout, a addresses) error {
	here, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer here.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeLink}}
	if err := here.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make bridge %s: %w", bridgeLink, err)
	}
	if err := bringUp(here, bridgeLink, a.bridge); err != nil {
		return err
	}
	for _, one := range a.agents {
		if err := connectAgent(here, bridge.Index, l.netns(one), one, a); err != nil {
			return fmt.Errorf("connect agent %s: %w", one.hostname, err)
		}
		if err := routePods(here, one); err != nil {
			return err
		}
	}
	return nil
}

// connectAgent makes an agent's network namespace at path, its link to the bridge, and its default route.
func connectAgent(here *netlink.Handle, bridge int, path string, one agent, a addresses) error {
	if err := createNetns(path); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer func() { _ = ns.Close() }() // read only
	there, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket in its namespace: %w", err)
	}
	defer there.Close()
	// The agent's end is made in its namespace at once: a link named eth0 may be here already.
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: one.link(), MasterIndex: bridge},
		PeerName:  agentLink, PeerNamespace: netlink.NsFd(int(ns)),
	}
	if err := here.LinkAdd(veth); err != nil {
		return fmt.Errorf("make link %s: %w", one.link(), err)
	}
	if err := errors.Join(
		bringUp(here, one.link(), netip.Prefix{}),
		bringUp(there, "lo", netip.Prefix{}),
		bringUp(there, agentLink, netip.PrefixFrom(one.endpoint.Addr(), agentBits)),
	); err != nil {
		return err
	}
	if err := there.RouteAdd(&netlink.Route{Gw: a.bridge.Addr().AsSlice()}); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	return nil
}

// routePods routes an agent's pods through its address, which has to be on a link already.
func routePods(h *netlink.Handle, one agent) error {
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(one.pods), Gw: one.endpoint.Addr().AsSlice()}); err != nil {
		return fmt.Errorf("add route to pods %s: %w", one.pods, err)
	}
	return nil
}

// bringUp gives a link an address, unless it is the zero one, and sets it up.
func bringUp(h *netlink.Handle, name string, address netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if address.IsValid() {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{
			IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen()),
		}}); err != nil {
			return fmt.Errorf("add address %s to link %s: %w", address, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set link %s up: %w", name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	p = p.Masked()
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// createNetns makes a network namespace that lives as long as the mount on its file at path.
func createNetns(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		// Unlocked only when it is back: else the thread ends with the goroutine. The process's first thread could not end.
		runtime.LockOSThread()
		here, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("own network namespace: %w", err)
			return
		}
		defer func() { _ = here.Close() }() // it was only read
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("unshare: %w", err)
			return
		}
		err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		if back := netns.Set(here); back != nil {
			err = errors.Join(err, fmt.Errorf("return to the own network namespace: %w", back))
		} else {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// checkSubnet makes sure that nothing on this machine uses an address of ours. Links of an earlier run do not count.
func checkSubnet(a addresses) error {
	routes, err := netlink.RouteList(nil, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	ours := map[int]bool{}
	if link, err := netlink.LinkByName(bridgeLink); err == nil {
		ours[link.Attrs().Index] = true
	}
	var faults []error
	for _, r := range routes {
		if r.Dst == nil || r.Dst.IP.IsUnspecified() || ours[r.LinkIndex] {
			continue
		}
		dst, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && netip.PrefixFrom(dst, bits).Overlaps(a.subnet) {
			faults = append(faults, newFault(errdefs.ErrConflict,
				"subnet %s is in use on this machine (route to %s): choose another with --subnet", a.subnet, r.Dst))
		}
	}
	return errors.Join(faults...)
}

// checkPorts makes sure that our ports on the bridge address can be had before the address is there: a program that
// listens on all addresses would be in the way. The agents' namespaces are ours alone.
func checkPorts(ports map[string]int, address netip.Addr) error {
	var faults []error
	for name, port := range ports {
		if err := tryListen(address, port); err != nil {
			faults = append(faults, fmt.Errorf("port %d for %s on %s is taken by another program: end that: %w", port, name, address, err))
		}
	}
	return errors.Join(faults...)
}

func tryListen(address netip.Addr, port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// Nothing was sent or received.
	defer func() { _ = unix.Close(fd) }()
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: address.As4()}),
		unix.Listen(fd, 1),
	)
}

// removeLinks removes our links, however many agents there were. Those in an agent's namespace go with it, whose mount
// unmountBelow has removed; the kernel then removes the other end too, in its own time.
func removeLinks() error {
	names := []string{bridgeLink}
	for n := 1; n <= maxAgents; n++ {
		names = append(names, agent{number: n}.link())
	}
	var errs []error
	for _, name := range names {
		link, err := netlink.LinkByName(name)
		if err != nil {
			if _, missing := errors.AsType[netlink.LinkNotFoundError](err); !missing {
				errs = append(errs, fmt.Errorf("find link %s: %w", name, err))
			}
			continue
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("remove link %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
