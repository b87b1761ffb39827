package simulated

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

// waitReady waits for an answer of the scheduler's /readyz?verbose.
func waitReady(t *testing.T, code int, says string) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("readiness %d with %q", code, says), func(ctx context.Context) error {
		got, text, err := cluster.Look(ctx, "/readyz?verbose")
		if err == nil && (got != code || !strings.Contains(text, says)) {
			err = fmt.Errorf("it is %d: %s", got, text)
		}
		return err
	})
}

// TestReadiness: a scheduler without a master lives, is not ready and says why; with the master it is ready again.
func TestReadiness(t *testing.T) {
	waitReady(t, http.StatusOK, "[+]mesos ok")
	order(t, "master", `{"action":"stop"}`)
	waitReady(t, http.StatusServiceUnavailable, "[-]mesos failed: not subscribed with a Mesos master")
	if code, text, err := cluster.Look(t.Context(), "/livez"); code != http.StatusOK || err != nil {
		t.Errorf("liveness without a master: %d %s, %v", code, text, err)
	}
	order(t, "master", `{"action":"start","keep_registry":true}`)
	waitReady(t, http.StatusOK, "[+]mesos ok")
}
