package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Version, Commit and Date are stamped by the linker (-X); a plain go build knows only what Go records by itself.
var (
	Version = "dev"
	Commit  = ""
	Date    = ""
)

// Info is what `mesopod version` tells.
type Info struct {
	// Version of mesopod, "dev" for a build that was not stamped.
	Version string `json:"version"`
	// Commit of the sources, empty if unknown.
	Commit string `json:"commit,omitempty"`
	// Date of the build in RFC 3339, empty if unknown.
	Date string `json:"date,omitempty"`
	// Go is the version of the toolchain.
	Go string `json:"go"`
	// Platform is GOOS/GOARCH.
	Platform string `json:"platform"`
	// Kubernetes is the version of the kubelet, scheduler and control plane in the program.
	Kubernetes string `json:"kubernetes"`
	// MesosAPI is the version of the Mesos HTTP API that is spoken.
	MesosAPI string `json:"mesosAPI"`
	// MesosGo is the version of the client library for it.
	MesosGo string `json:"mesosGo"`
}

// Build tells what this program was built from.
func Build() Info {
	info := Info{
		Version: Version, Commit: Commit, Date: Date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, MesosAPI: "v1", Kubernetes: "unknown", MesosGo: "unknown",
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, m := range build.Deps {
		switch m.Path {
		case "k8s.io/kubernetes":
			info.Kubernetes = m.Version
		case "github.com/mesos/mesos-go":
			info.MesosGo = m.Version
		}
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" && info.Commit == "" {
			info.Commit = s.Value
		}
	}
	return info
}

// Print writes the version to out, as one line of text or, with format "json", as JSON.
func (i Info) Print(out io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(i)
	case "":
		_, err := fmt.Fprintf(out, "mesopod %s (%s, Kubernetes %s, Mesos API %s, %s)\n", i.Version, i.Platform, i.Kubernetes, i.MesosAPI, i.Go)
		return err
	}
	return Usagef("output format %q: want json, or none for text", format)
}
