// Command mesopod-image builds small OCI images without a registry, a daemon or a container: files in, one archive out
// that containerd imports. It exists because mesopod's own images (the sandbox's pause, and those of the demo and the
// tests) must be there on a machine without any network, and must be the same bytes wherever they are built.
//
// The command line becomes a spec (command.go), the spec an image (image.go); nothing here starts a goroutine.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "mesopod-image:", err)
		os.Exit(1)
	}
}
