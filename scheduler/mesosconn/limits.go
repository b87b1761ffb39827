package mesosconn

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// rolesPath tells of quotas what the operator API's GET_QUOTA does not: how much of them is used (Mesos 1.9 and later).
const rolesPath = "/master/roles"

// Limits asks the leading master which limits quotas set on cpus, memory, disk and gpus of roles, by role and resource. They
// are those that this framework's principal may see.
func (c *Conn) Limits(ctx context.Context) ([]procure.RoleLimit, error) {
	sub, _ := c.current()
	if sub == nil {
		return nil, fmt.Errorf("quotas: not subscribed: %w", errdefs.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	address := url.URL{Scheme: sub.master.Scheme, Host: sub.master.Host, Path: rolesPath}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("quotas: %w: %w", errdefs.ErrInvalid, err)
	}
	c.credentials.sign(request)
	response, err := c.calls.Do(request)
	if err != nil {
		return nil, fmt.Errorf("quotas: %w: %w", errdefs.ErrUnavailable, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("quotas: %w: %s: %s", errdefs.ErrRefused, response.Status, bodyText(response))
	}
	defer response.Body.Close()
	var answer rolesAnswer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("quotas: %w: %w", errdefs.ErrInvalid, err)
	}
	return answer.limits(), nil
}

// rolesAnswer is what of /roles is read. Amounts of other kinds than scalars are text.
type rolesAnswer struct {
	Roles []struct {
		Name  string `json:"name"`
		Quota struct {
			Limit    map[string]any `json:"limit"`
			Consumed map[string]any `json:"consumed"`
		} `json:"quota"`
	} `json:"roles"`
}

func (a rolesAnswer) limits() (all []procure.RoleLimit) {
	for _, role := range a.Roles {
		for _, resource := range []string{"cpus", "disk", "gpus", "mem"} {
			limit, limited := role.Quota.Limit[resource].(float64)
			if !limited {
				continue
			}
			used, _ := role.Quota.Consumed[resource].(float64) // nothing is used yet
			all = append(all, procure.RoleLimit{Role: role.Name, Resource: resource, Limit: limit, Used: used})
		}
	}
	slices.SortStableFunc(all, func(a, b procure.RoleLimit) int { return cmp.Compare(a.Role, b.Role) })
	return all
}
