package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profileSeconds is how long a profile is taken from the begin of a workload.
const profileSeconds = 10

// profiled runs work while CPU profiles are taken of our scheduler and of the control plane, one file each. They are of little use
// for work that ends before.
func (c *cluster) profiled(ctx context.Context, dir, workload string, work func() error) error {
	if dir == "" {
		return work()
	}
	parts := map[string]string{"scheduler": statusAddress, "control-plane": planeProfiles}
	taken := make(chan error, len(parts))
	for name, address := range parts {
		go func() {
			data, err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileSeconds))
			taken <- store(dir, workload+"-"+name, data, err)
		}()
	}
	err := work()
	return errors.Join(err, <-taken, <-taken)
}

func store(dir, name string, data []byte, err error) error {
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name+".pprof"), data, 0o644)
}

// fetch is the body of a page.
func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, data)
	}
	return data, err
}
