package agentconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// About is what an agent says about itself that matters to who runs in its containers.
type About struct {
	// CPUQuotas: the agent gives containers a CFS quota, and shrinks it when their tasks end. It does so when told to
	// (--cgroups_enable_cfs), and from Mesos 1.10 on whenever all tasks have limits, both with the isolator cgroups/cpu.
	CPUQuotas bool
	// TaskLimits: the agent knows limits of tasks apart from their shares (Mesos 1.10 and later).
	TaskLimits bool
}

// About asks the agent's page /state. An agent that wants to know who asks (--authenticate_http_readonly), or that keeps
// its flags to itself, answers with an error.
func (c *Conn) About(ctx context.Context) (About, error) {
	var state struct {
		Version string `json:"version"`
		Flags   struct {
			CFS       string `json:"cgroups_enable_cfs"`
			Isolation string `json:"isolation"`
		} `json:"flags"`
	}
	if err := c.ask(ctx, "/state", &state); err != nil {
		return About{}, fmt.Errorf("ask the agent about itself: %w", err)
	}
	if state.Flags.Isolation == "" {
		return About{}, errors.New("ask the agent about itself: it does not tell its flags")
	}
	isolators := strings.Split(state.Flags.Isolation, ",")
	about := About{TaskLimits: atLeast(state.Version, 1, 10)}
	if slices.Contains(isolators, "cgroups/cpu") || slices.Contains(isolators, "cgroups/all") {
		about.CPUQuotas = state.Flags.CFS == "true" || about.TaskLimits
	}
	return about, nil
}

// atLeast compares the first two numbers of a version such as 1.11.0. What is no version is old.
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// ask reads JSON from a page of the agent's process, which is where the executor API is too.
func (c *Conn) ask(ctx context.Context, path string, into any) (retErr error) {
	address := strings.TrimSuffix(c.config.URL, "/api/v1/executor") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if c.config.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.config.Token)
	}
	answer, err := c.pages.Do(request)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
