package bundle

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/test/cluster"
)

const node1, node2 = "mesopod-agent1", "mesopod-agent2"

// store keeps archives; the link current in it is what the scheduler serves.
const (
	store   = "/var/lib/mesopod/bundle-store"
	current = store + "/current"
)

// suite is the cluster of all tests here.
var suite = cluster.New(cluster.Options{Name: "bundles", Agents: 2, Flags: []string{
	"--scheduler-flag=bundle=" + current, "--scheduler-flag=bundle-cache=" + cache,
}})

const cache = "/var/lib/mesopod/bundles/bundles"

// old and next are the bundle under test, and another one with the same programs.
var old, next bundle.Digest

func TestMain(m *testing.M) {
	code := 1
	err := prepare()
	if err == nil {
		code = cluster.Suite{Cluster: suite}.Run(m)
	}
	for _, dir := range []string{store, cache} {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundles:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare() error {
	for _, dir := range []string{store, cache} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	var err error
	if old, err = bundle.Create(cluster.BundleDir(), store); err != nil {
		return err
	}
	copied := store + "/copy"
	if err := os.CopyFS(copied, os.DirFS(cluster.BundleDir())); err != nil {
		return err
	}
	if err := os.WriteFile(copied+"/another", []byte("another"), 0o644); err != nil {
		return err
	}
	if next, err = bundle.Create(copied, store); err != nil {
		return err
	}
	return serve(old)
}

// serve makes a bundle the current one, for the next scheduler.
func serve(digest bundle.Digest) error {
	return errors.Join(os.Symlink(string(digest), current+".new"), os.Rename(current+".new", current))
}
