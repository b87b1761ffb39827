package binder

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// request is what the stand-in API server saw.
type request struct {
	Method, Path string
	Body         map[string]any
}

// api is a stand-in for the API server: it answers each method on pod default/web as ordered.
type api struct {
	write    int // status of POST, PATCH and DELETE; 0 cuts the connection
	get      int
	pod      *corev1.Pod // what GET and PATCH show
	mu       sync.Mutex
	requests []request
}

// seen are the requests so far.
func (a *api) seen() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	seen := request{Method: r.Method, Path: r.URL.Path}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &seen.Body); err != nil {
			panic(err)
		}
	}
	a.mu.Lock()
	a.requests = append(a.requests, seen)
	a.mu.Unlock()
	code := a.write
	if r.Method == http.MethodGet {
		code = a.get
	}
	if code == 0 {
		panic(http.ErrAbortHandler)
	}
	var answer any = a.pod
	if code >= 300 || r.Method == http.MethodPost || r.Method == http.MethodDelete {
		reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict,
			403: metav1.StatusReasonForbidden, 422: metav1.StatusReasonInvalid, 429: metav1.StatusReasonTooManyRequests,
			503: metav1.StatusReasonServiceUnavailable}[code]
		outcome := metav1.StatusSuccess
		if code >= 300 {
			outcome = metav1.StatusFailure
		}
		answer = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: outcome, Code: int32(code), Reason: reason}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that left is no matter here
}

func start(t *testing.T, a *api) *Binder {
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return New(client.CoreV1())
}

func pod(uid, node string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node}}
}

func target() Target {
	return Target{Namespace: "default", Name: "web", UID: "u1", Node: "a1",
		Annotations: map[string]string{"k8s.mesosphere.io/taskId": "u1.1", "other": "x"}}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		api   *api
		want  error // nil is success
		patch bool  // holds for Patch too
	}{
		"bound (EX-12)":                {&api{write: 201, get: 200, pod: pod("u1", "a1")}, nil, false},
		"bound before (EX-19)":         {&api{write: 409, get: 200, pod: pod("u1", "a1")}, nil, true},
		"on another node (EX-20)":      {&api{write: 409, get: 200, pod: pod("u1", "a2")}, errdefs.ErrConflict, true},
		"another UID (EX-23, EX-32)":   {&api{write: 409, get: 200, pod: pod("u2", "")}, errdefs.ErrNotFound, true},
		"deleted or gated (EX-21)":     {&api{write: 409, get: 200, pod: pod("u1", "")}, errdefs.ErrRefused, true},
		"gone (EX-21)":                 {&api{write: 404}, errdefs.ErrNotFound, true},
		"gone after conflict":          {&api{write: 409, get: 404}, errdefs.ErrNotFound, true},
		"forbidden (EX-16, EX-27)":     {&api{write: 403}, errdefs.ErrRefused, true},
		"invalid (EX-18)":              {&api{write: 422}, errdefs.ErrRefused, true},
		"internal error (EX-22)":       {&api{write: 500}, errdefs.ErrUnavailable, true},
		"cut (EX-22)":                  {&api{}, errdefs.ErrUnavailable, true},
		"bound, read back fails":       {&api{write: 201, get: 500}, errdefs.ErrUnavailable, false},
		"bound, another one meanwhile": {&api{write: 201, get: 200, pod: pod("u2", "")}, errdefs.ErrNotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, c.api)
			got, err := b.Bind(t.Context(), target())
			check(t, "bind", got, err, c.want)
			if c.patch {
				got, err = b.Patch(t.Context(), target())
				check(t, "patch", got, err, c.want)
			}
		})
	}
}

func check(t *testing.T, verb string, got *corev1.Pod, err, want error) {
	t.Helper()
	switch {
	case want == nil && (err != nil || got.Spec.NodeName != "a1"):
		t.Errorf("%s: %v, %v", verb, got, err)
	case want != nil && !errors.Is(err, want):
		t.Errorf("%s: error %v is not %v", verb, err, want)
	}
}

// EX-13, EX-15, EX-23: what the binding carries and where it goes.
func TestBindingRequest(t *testing.T) {
	a := &api{write: 201, get: 200, pod: pod("u1", "a1")}
	if _, err := start(t, a).Bind(t.Context(), target()); err != nil {
		t.Fatal(err)
	}
	got := a.seen()[0]
	if got.Path != "/api/v1/namespaces/default/pods/web/binding" {
		t.Errorf("path %s", got.Path)
	}
	want := map[string]any{"uid": "u1", "name": "web", "namespace": "default",
		"annotations": map[string]any{"k8s.mesosphere.io/taskId": "u1.1", "other": "x"}}
	if diff := cmp.Diff(want, got.Body["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"kind": "Node", "name": "a1"}, got.Body["target"]); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
}

// EX-28 to EX-32: a patch has our keys and the UID, and nothing else; none is sent without keys.
func TestPatchRequest(t *testing.T) {
	a := &api{write: 200, get: 200, pod: pod("u1", "a1")}
	b := start(t, a)
	if _, err := b.Patch(t.Context(), target()); err != nil {
		t.Fatal(err)
	}
	want := []request{{Method: http.MethodPatch, Path: "/api/v1/namespaces/default/pods/web", Body: map[string]any{
		"metadata": map[string]any{"uid": "u1", "annotations": map[string]any{"k8s.mesosphere.io/taskId": "u1.1"}}}}}
	if diff := cmp.Diff(want, a.seen()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	b = start(t, &api{get: 200, pod: pod("u1", "a1")}) // a write would be cut
	bare := target()
	bare.Annotations = nil
	if _, err := b.Patch(t.Context(), bare); err != nil {
		t.Errorf("without annotations: %v", err)
	}
	b = start(t, &api{write: 200, pod: pod("u1", "a2")})
	if _, err := b.Patch(t.Context(), target()); !errors.Is(err, errdefs.ErrConflict) {
		t.Errorf("pod of another node: %v", err)
	}
}

// EX-37, EX-79: deletion names the UID, rounds the grace up, and tells of a pod that is gone or has a successor of its name.
func TestDelete(t *testing.T) {
	for _, c := range []struct {
		code  int
		grace time.Duration
		want  error
		body  any // gracePeriodSeconds
	}{
		{200, -1, nil, nil},
		{200, 0, nil, 0.0},
		{200, 1500 * time.Millisecond, nil, 2.0},
		{404, 0, errdefs.ErrNotFound, 0.0},
		{409, 0, errdefs.ErrNotFound, 0.0},
		{403, 0, errdefs.ErrRefused, 0.0},
		{429, 0, errdefs.ErrUnavailable, 0.0}, // a disruption budget has no room
		{500, 0, errdefs.ErrUnavailable, 0.0},
		{0, 0, errdefs.ErrUnavailable, 0.0},
	} {
		a := &api{write: c.code, pod: pod("u1", "a1")}
		b := start(t, a)
		if err := b.Delete(t.Context(), "default", "web", "u1", c.grace); !errors.Is(err, c.want) {
			t.Errorf("delete, %d: %v", c.code, err)
		}
		if err := b.Evict(t.Context(), "default", "web", "u1", c.grace); !errors.Is(err, c.want) {
			t.Errorf("evict, %d: %v", c.code, err)
		}
		seen := a.seen()
		eviction, _ := seen[1].Body["deleteOptions"].(map[string]any)
		for verb, options := range map[string]map[string]any{"delete": seen[0].Body, "evict": eviction} {
			if diff := cmp.Diff(map[string]any{"uid": "u1"}, options["preconditions"]); diff != "" || options["gracePeriodSeconds"] != c.body {
				t.Errorf("%s, %d: options %v", verb, c.code, options)
			}
		}
		if path := seen[1].Path; path != "/api/v1/namespaces/default/pods/web/eviction" {
			t.Errorf("eviction posted to %s", path)
		}
	}
}
