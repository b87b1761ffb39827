package cluster

import (
	"context"
	"io"
	"net/http"
)

// StatusURL is where the scheduler of every local cluster shows itself.
const StatusURL = "http://" + BridgeIP + ":10246"

// Look gets a page of the scheduler, whatever its status code.
func Look(ctx context.Context, path string) (code int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, StatusURL+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}
