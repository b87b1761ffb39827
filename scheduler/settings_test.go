package scheduler

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/settings"
)

// Whatever is in Config can be set, once: a field without a setting would be one that nobody can reach.
func TestEachFieldIsASetting(t *testing.T) {
	cfg := DefaultConfig()
	held := map[uintptr]string{}
	for _, s := range cfg.Settings() {
		at := reflect.ValueOf(s.Value).Pointer()
		if held[at] != "" {
			t.Errorf("%s and %s are one variable", s.Key, held[at])
		}
		held[at] = s.Key
		if plain := strings.ReplaceAll(s.Flag, "-", ""); s.Flag != "" && plain != strings.ToLower(s.Key) {
			t.Errorf("setting %s has flag --%s: want one name in two forms", s.Key, s.Flag)
		}
		if s.Help == "" || strings.HasSuffix(s.Help, ".") {
			t.Errorf("setting %s has help %q: want a phrase", s.Key, s.Help)
		}
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if held[v.Addr().Pointer()] != "" && v.Kind() != reflect.Struct {
			delete(held, v.Addr().Pointer())
			return
		}
		if v.Kind() != reflect.Struct || v.NumField() == 0 {
			t.Errorf("field %s has no setting", path)
			return
		}
		for i := range v.NumField() {
			walk(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	value := reflect.ValueOf(&cfg).Elem()
	for i := range value.NumField() {
		if name := value.Type().Field(i).Name; name != "ExecutorResources" { // disk is no setting: executors take none
			walk(name, value.Field(i))
		}
	}
}

// The default document says what holds without one, and docs/scheduler-config.yaml is it.
func TestDefaultDocument(t *testing.T) {
	text := DefaultDocument()
	var got Config
	document, faults := settings.Read("default", []byte(text), Document, got.Settings())
	if err := document.Error("default", faults); err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Programs.Sources = []string{} // an empty list is told
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
	committed, err := os.ReadFile("../docs/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), text); diff != "" {
		t.Errorf("docs/scheduler-config.yaml is not what mesopod config default prints (run make generate):\n%s", diff)
	}
}

// Each fault of a file is told with its line.
func TestReadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: mesopod.io/v1alpha1\nkind: SchedulerConfig\nmaster: m1:5050\nprincpal: x\nfailoverTimeout: 1s\nexecutorListen: :9443\nbundleSources: [/a, b]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, document, faults, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	err = document.Error("test", append(faults, cfg.Faults()...))
	if err == nil || cfg.Master != "m1:5050" {
		t.Fatalf("got master %q, error %v", cfg.Master, err)
	}
	for _, want := range []string{
		file + ":4: unknown field princpal; did you mean principal?", file + ":5: failoverTimeout: 1s is under 1m",
		file + `:6: executorListen: ":9443" names no host`, file + ":7: bundleSources: [/a b] without a bundle", file + `:7: bundleSources[1]: "b"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not tell %q:\n%v", want, err)
		}
	}
	if _, _, _, err := ReadConfig(file + ".missing"); err == nil || !strings.Contains(err.Error(), "invalid") {
		t.Errorf("a missing file: %v", err)
	}
}
