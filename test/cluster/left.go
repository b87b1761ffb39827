package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// LeftOf lists what there is of a Mesos container and of the state folder of its executor. A new executor may have moved
// into the folder: its own does not count.
func LeftOf(t *testing.T, container, state string) []string {
	t.Helper()
	var left []string
	groups, err := filepath.Glob("/sys/fs/cgroup/*/mesopod/*/" + container)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		left = append(left, "cgroup "+group)
	}
	// The pods' cgroups are below, so the path tells them all.
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "/"+container) {
			left = append(left, "process "+filepath.Dir(file))
		}
	}
	owner, err := os.ReadFile(filepath.Join(state, "container"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(owner)) != container {
		return left
	}
	points, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		if strings.HasPrefix(point, state+"/") {
			left = append(left, "mount "+point)
		}
	}
	return left
}
