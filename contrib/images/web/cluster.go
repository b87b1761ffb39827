package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// accountDir is where a pod finds its service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// askCluster asks the API server, as any program in a pod does: by the environment's address, the mounted CA and token.
// It returns the name that the API server knows us by.
func askCluster(ctx context.Context, dir string, environment func(string) string) (string, error) {
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return "", err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return "", errors.New("ca.crt holds no certificate")
	}
	server := net.JoinHostPort(environment("KUBERNETES_SERVICE_HOST"), environment("KUBERNETES_SERVICE_PORT"))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		bytes.NewBufferString(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("%s answers %s", server, answer.Status)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&review); err != nil {
		return "", fmt.Errorf("answer of %s: %w", server, err)
	}
	return review.Status.UserInfo.Username, nil
}
