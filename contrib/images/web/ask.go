package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// askLimit is how long one answer may take.
const askLimit = 2 * time.Second

// ask gets url again and again until ctx ends, each time by a new look-up and a new connection, and writes a line for each
// answer: "N ok BODY" or "N failed ERROR". At the end it tells how many there were.
func ask(ctx context.Context, url string, every time.Duration, out io.Writer) {
	client := &http.Client{Timeout: askLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	asked, failed := 0, 0
	for ctx.Err() == nil {
		asked++
		// A question under way is not a failure because we are to end.
		body, err := get(context.WithoutCancel(ctx), client, url)
		if err != nil {
			failed++
			fmt.Fprintf(out, "%d failed %v\n", asked, err)
		} else {
			fmt.Fprintf(out, "%d ok %s\n", asked, body)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	fmt.Fprintf(out, "asked %d, failed %d\n", asked, failed)
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", answer.Status)
	}
	return strings.TrimSpace(string(body)), err
}

// askOnly is what the program does with --ask.
func askOnly(ctx context.Context, url string, every time.Duration) int {
	if every <= 0 {
		fmt.Fprintln(os.Stderr, "web: --every: want a time above 0")
		return 2
	}
	ask(ctx, url, every, os.Stdout)
	return 0
}
