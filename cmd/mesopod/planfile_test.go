//go:build !agent

package main

import (
	"strings"
	"testing"
)

// A file's pods are read with all of its faults, each with its document.
func TestReadPods(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {schedulerName: mesos, containers: [{name: c, image: i}]}\n"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many, namespace: prod}\nspec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
	const job = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"once-"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	for _, c := range []struct {
		name, text, want string
		faults           []string // parts of the error; none: no error
	}{
		{name: "a pod", text: pod, want: "here/web"},
		{name: "several", text: "# first\n---\n" + pod + "---\n" + deployment + "---\n" + job, want: "here/web prod/many here/once-"},
		{name: "a list", text: `{"apiVersion":"v1","kind":"List","items":[` + job + `,` + job + `]}`, want: "here/once- here/once-"},
		{name: "nothing", text: "# only a comment\n---\n\n"},
		{name: "a typo", text: pod + "---\n" + strings.Replace(pod, "containers", "contaners", 1), want: "here/web", faults: []string{"-: document 2", `unknown field "spec.contaners"`}},
		{name: "no yaml", text: "a: [", faults: []string{"document 1"}},
		{name: "two faults", text: "kind: Pod\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n", faults: []string{"document 1", "document 2: a Service has no pods"}},
		{name: "no name", text: strings.Replace(pod, "name: web", "", 1), faults: []string{"the Pod has no name"}},
		{name: "an unknown kind", text: "apiVersion: v1\nkind: Pood\n", faults: []string{`no kind "Pood"`}},
	} {
		pods, err := readPods("-", strings.NewReader(c.text), "here")
		var got []string
		for _, pod := range pods {
			got = append(got, pod.Namespace+"/"+pod.Name)
		}
		if text := strings.Join(got, " "); text != c.want || (err == nil) != (len(c.faults) == 0) {
			t.Errorf("%s: got %q, %v", c.name, text, err)
		}
		for _, fault := range c.faults {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: got %v, want %q in it", c.name, err, fault)
			}
		}
	}
	if _, err := readPods("/nowhere/pod.yaml", nil, "here"); err == nil || !strings.Contains(err.Error(), "/nowhere/pod.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}
