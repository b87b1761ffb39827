package mesossim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pass sends events of these kinds over a link and shows what comes out: KIND, KIND~ for half of one, KIND+ for a late one, and | where the
// stream breaks.
func pass(f *faults, link string, kinds ...string) string {
	var out []string
	for _, kind := range kinds {
		items, end := f.onEvent(time.Unix(1000, 0), link, queued{kind: kind})
		for _, item := range items {
			text := item.kind
			if item.cut {
				text += "~"
			}
			if !item.due.IsZero() {
				text += "+"
			}
			out = append(out, text)
		}
		if end {
			out = append(out, "|")
		}
	}
	return strings.Join(out, " ")
}

// TestOnEvent: what each kind does to a stream, on its link, for its type, after what it skips and as often as it counts.
func TestOnEvent(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		link  string
		want  string
	}{
		{"drop", Fault{Link: "scheduler", Kind: Drop}, "scheduler", ""},
		{"drop one type", Fault{Link: "scheduler", Kind: Drop, Match: "A"}, "scheduler", "B C B"},
		{"drop the second", Fault{Link: "scheduler", Kind: Drop, Skip: 1, Count: 1}, "scheduler", "A C B A"},
		{"other link", Fault{Link: "executor", Kind: Drop}, "scheduler", "A B C B A"},
		{"all agents", Fault{Link: "executor", Kind: Drop}, "executor:a1", ""},
		{"another agent", Fault{Link: "executor:a2", Kind: Drop}, "executor:a1", "A B C B A"},
		{"for calls", Fault{Link: "scheduler", Kind: Drop, Calls: true}, "scheduler", "A B C B A"},
		{"hang is for calls", Fault{Link: "scheduler", Kind: Hang}, "scheduler", "A B C B A"},
		{"delay", Fault{Link: "scheduler", Kind: Delay, Match: "B", Count: 1, Delay: Duration(time.Second)}, "scheduler", "A B+ C B A"},
		{"duplicate", Fault{Link: "scheduler", Kind: Duplicate, Match: "C"}, "scheduler", "A B C C B A"},
		{"reorder", Fault{Link: "scheduler", Kind: Reorder, Match: "B", Count: 1}, "scheduler", "A C B B A"},
		{"reorder two", Fault{Link: "scheduler", Kind: Reorder, Count: 2}, "scheduler", "A C B B A"},
		{"truncate", Fault{Link: "scheduler", Kind: Truncate, Match: "C"}, "scheduler", "A B C~ B A"},
		{"close", Fault{Link: "scheduler", Kind: Close, Match: "C"}, "scheduler", "A B | B A"},
		{"partition", Fault{Link: "scheduler", Kind: Partition}, "scheduler", ""},
	} {
		f := &faults{list: []Fault{c.fault}}
		if got := pass(f, c.link, "A", "B", "C", "B", "A"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFaultCheck: what a fault lacks is told.
func TestFaultCheck(t *testing.T) {
	for _, bad := range []Fault{
		{Link: "scheduler"}, {Link: "nowhere", Kind: Drop}, {Kind: Drop}, {Link: "scheduler", Kind: Status}, {Link: "executor", Kind: Delay},
		{Link: "scheduler", Kind: Status, Code: 700},
	} {
		if bad.check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if err := (Fault{Link: "executor:a1", Kind: Status, Code: 503}).check(); err != nil {
		t.Error(err)
	}
}

// TestConfig: all that is wrong with a configuration is told together.
func TestConfig(t *testing.T) {
	_, err := New(Config{
		Masters: []string{"nowhere"}, ScriptedResources: "cpus:x", Scripted: -1, ScriptedAttributes: "noColon",
		Agents: []Agent{{Name: "a", Address: "127.0.0.1:0", Dir: t.TempDir()}, {Name: "a", Address: "b", Dir: t.TempDir()}},
		Faults: []Fault{{Kind: "strange"}},
	})
	for _, word := range []string{"nowhere", "cpus", "-1 simulated agents", `agent name "a"`, `address "b"`, "strange"} {
		if !strings.Contains(fmt.Sprint(err), word) {
			t.Errorf("the error does not tell of %s: %v", word, err)
		}
	}
}

// TestAttributesInTurn: agents without processes take values separated by bars one each, and a value that is none is a fault
// wherever it stands.
func TestAttributesInTurn(t *testing.T) {
	const attributes = "simulated:true;zone:z1|z2;rack:r1|r2|r3|r4"
	for n, want := range []string{"zone:z1;rack:r1", "zone:z2;rack:r2", "zone:z1;rack:r3", "zone:z2;rack:r4", "zone:z1;rack:r1"} {
		if got := inTurn(attributes, n); got != "simulated:true;"+want {
			t.Errorf("agent %d has %s, want %s", n, got, want)
		}
	}
	if got := inTurn("plain:text", 3); got != "plain:text" {
		t.Errorf("got %s", got)
	}
	if _, err := New(Config{ScriptedAttributes: "a:1|[2-"}); err == nil {
		t.Error("the second agent's attribute cannot be read, and nobody said so")
	}
}
