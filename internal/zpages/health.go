package zpages

import (
	"fmt"
	"net/http"
	"strings"
)

// Check is a part of health.
type Check struct {
	Name string
	// Live: without it the process is broken, and not only not ready.
	Live bool
	// Fault says what is wrong; empty when all is well.
	Fault string
	// Note says more of what is well; it is shown by ?verbose alone.
	Note string
}

// Health answers as Kubernetes' health endpoints do: 200 and "ok", or 503 and each check with what is wrong. ?verbose names the
// checks in any case. Only those that are Live count unless ready is asked for.
func Health(w http.ResponseWriter, r *http.Request, checks []Check, ready bool) {
	var text strings.Builder
	failed := false
	for _, c := range checks {
		switch {
		case !ready && !c.Live:
		case c.Fault != "":
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: %s\n", c.Name, c.Fault)
		case c.Note != "":
			fmt.Fprintf(&text, "[+]%s ok: %s\n", c.Name, c.Note)
		default:
			fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if failed {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	answer := "ok"
	if failed || r.URL.Query().Has("verbose") {
		answer = text.String()
	}
	write(w, []byte(answer))
}
