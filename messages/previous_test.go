package messages_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mesopod/mesopod/messages"
)

// previous reads what the version before this one wrote: testdata/previous is recorded with each release, never rewritten.
func previous(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "previous", file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestReadsPrevious: this scheduler and this executor understand those of the version before.
func TestReadsPrevious(t *testing.T) {
	for _, file := range []string{"launch.json", "launch_access.json"} {
		launch, err := messages.DecodeLaunch(previous(t, file))
		if err != nil || launch.Pod == nil || launch.Pod.Name != "web" || launch.Node != "a1" {
			t.Errorf("%s = %+v, %v", file, launch, err)
		}
	}
	for file, kind := range map[string]messages.FrameworkMessageKind{"message_suicide.json": messages.Suicide, "message_task_lost.json": messages.TaskLost} {
		if m, err := messages.DecodeFrameworkMessage(previous(t, file)); err != nil || m.Kind != kind {
			t.Errorf("%s = %+v, %v", file, m, err)
		}
	}
	for _, file := range []string{"status_running.json", "status_starting.json"} {
		if status, err := messages.DecodeStatus(previous(t, file)); err != nil || status.Name != "web_default" {
			t.Errorf("%s = %+v, %v", file, status, err)
		}
	}
	config, err := messages.ParseExecutorConfig(previous(t, "executor-config.yaml"))
	if err != nil || config.SuicideTimeout.Duration != 20*time.Minute || config.PodNetwork != "vxlan" || len(config.KubeletConfiguration) == 0 {
		t.Errorf("executor-config.yaml = %+v, %v", config, err)
	}
}

// TestPreviousReads: what this build writes of the same things has all that the version before looks for, of the same kind.
func TestPreviousReads(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "previous", "*.json"))
	if err != nil || len(files) < 6 {
		t.Fatalf("recorded are %v, %v", files, err)
	}
	for _, path := range files {
		file := filepath.Base(path)
		now, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Errorf("%s is not written any more: %v", file, err)
			continue
		}
		var before, after any
		if err := json.Unmarshal(previous(t, file), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(now, &after); err != nil {
			t.Fatal(err)
		}
		for _, fault := range lacks(file, before, after) {
			t.Error(fault)
		}
	}
}

// lacks tells what of one JSON value another one lacks.
func lacks(place string, want, have any) (faults []string) {
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", have) {
		return []string{fmt.Sprintf("%s is a %T, was a %T", place, have, want)}
	}
	switch want := want.(type) {
	case map[string]any:
		for key, value := range want {
			faults = append(faults, lacks(place+"."+key, value, have.(map[string]any)[key])...)
		}
	case []any:
		for i, value := range want {
			if rest := have.([]any); i < len(rest) {
				faults = append(faults, lacks(fmt.Sprintf("%s[%d]", place, i), value, rest[i])...)
				continue
			}
			faults = append(faults, fmt.Sprintf("%s[%d] is missing", place, i))
		}
	}
	return faults
}
