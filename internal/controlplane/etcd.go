package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs etcd until ctx ends; it closes ready when etcd serves. It
// listens on unix sockets only: etcd has no users here, so whoever can reach it
// owns the cluster, and only the owner of the sockets' folder can.
func (p *Plane) runEtcd(ctx context.Context, ready chan<- struct{}) error {
	if err := os.MkdirAll(p.files.sockets(), 0o700); err != nil {
		return fmt.Errorf("make folder for sockets: %w", err)
	}
	if err := errors.Join(removeSocket(p.files.etcdSocket()), removeSocket(p.files.peerSocket())); err != nil {
		return err
	}
	client := []url.URL{{Scheme: "unix", Path: p.files.etcdSocket()}}
	// A single member talks to no peer, but etcd will not start without.
	peer := []url.URL{{Scheme: "unix", Path: p.files.peerSocket()}}

	cfg := embed.NewConfig()
	cfg.Name = "mesopod"
	cfg.Dir = p.files.etcdData()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// At level "warn" etcd prints every slow request.
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{p.files.etcdLog()}
	cfg.UnsafeNoFsync = !p.cfg.Durable
	// A single member has nobody to wait for before it elects itself.
	cfg.TickMs, cfg.ElectionMs = 10, 100

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start with data in %s: %w", cfg.Dir, err)
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
		close(ready)
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-e.Err():
		return err
	case <-e.Server.StopNotify():
		return fmt.Errorf("stopped by itself, see %s", p.files.etcdLog())
	case <-ctx.Done():
		return nil
	}
}
