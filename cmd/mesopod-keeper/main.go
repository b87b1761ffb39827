// Command mesopod-keeper is the thin parent of the executor, and the program that the Mesos agent starts.
//
// It is small and static, so that the agent's fetcher copies little into each sandbox, and it does what must be done
// before and after the executor lives: it makes the cgroups that the kubelet needs and Mesos does not make, joins
// them, starts `mesopod executor` from the bundle as its child, hands SIGTERM and SIGINT on, reaps what is orphaned
// below it, and at the end kills and removes what is left. It never calls setsid: under posix isolation Mesos ends an
// executor by session and process tree.
//
// The programs are in a folder that the operator keeps on each agent (-bundle-dir), or they are a bundle, named by its
// SHA-256, that the keeper brings into the host's cache (package cache). SIGHUP has it read an order for another bundle
// (bundle.go): it brings that one while the old executor runs, and then starts the executor anew from it.
//
// An executor that crashes is started again, after 1 s and twice as long each time up to 30 s; a life of a minute
// begins a new row. Its containers live on meanwhile, and Mesos sees nothing. After an end that was asked for or
// decided (0, 2 wrong configuration, 3 the kubelet ended, 4 the agent is lost) the keeper ends too, with the
// executor's code, 128 plus the number of the signal that killed it, or 70 when it could not start.
//
// `mesopod-keeper watchdog` is the keeper's other half (watchdog.go): should the keeper be killed, it ends what the
// keeper would have ended.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/mesopod/mesopod/cmd/mesopod-keeper/cache"
)

// exitUnable says that the executor was not started.
const exitUnable = 70

func main() {
	if len(os.Args) > 1 && os.Args[1] == watchdogVerb {
		if err := watch(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "mesopod-keeper: watchdog:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.bundleDir, "bundle-dir", "/opt/mesopod", "the folder with mesopod's programs, where no -bundle is named")
	flag.StringVar(&o.digest, "bundle", "", "the SHA-256 of the bundle to run, which is brought into the host's cache")
	flag.Func("bundle-source", "where that bundle can be had: a folder, or a URL of one; again for the next best", func(base string) error {
		o.sources = append(o.sources, base)
		return cache.CheckSource(base)
	})
	flag.StringVar(&o.cacheDir, "bundle-cache", cache.DefaultDir, "the host's cache of bundles, shared by all keepers")
	limit := flag.Int64("bundle-cache-mb", cache.DefaultLimit>>20, "how many MB of bundles that nobody uses stay in the cache")
	flag.Parse()
	o.cacheLimit = *limit << 20
	o.config = os.Getenv("MESOPOD_EXECUTOR_CONFIG")
	if o.config == "" {
		o.config = "/etc/mesopod/executor.yaml"
	}
	code, err := keep(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mesopod-keeper:", err)
	}
	os.Exit(code)
}

// options are what the flags say, and config, the file for the executor.
type options struct {
	bundleDir, digest string
	sources           []string
	cacheDir          string
	cacheLimit        int64
	config            string
}
