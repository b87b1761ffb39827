package settings

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
)

type box struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

type config struct {
	Master  string
	On      bool
	Count   int
	Share   float64
	Timeout time.Duration
	Names   []string
	Boxes   []box
}

func (c *config) list() []Setting {
	return []Setting{
		{Key: "master", Flag: "master", Value: &c.Master, Help: "masters"},
		{Key: "on", Flag: "on", Value: &c.On, Help: "whether"},
		{Key: "count", Flag: "count", Value: &c.Count, Help: "how many"},
		{Key: "share", Flag: "share", Value: &c.Share, Help: "part"},
		{Key: "failoverTimeout", Flag: "failover-timeout", Value: &c.Timeout, Help: "how long"},
		{Key: "names", Flag: "names", Value: &c.Names, Help: "who"},
		{Key: "boxes", Value: &c.Boxes, Help: "what"},
	}
}

var identity = Identity{APIVersion: "mesopod.io/v1alpha1", Kind: "Test"}

const head = "apiVersion: mesopod.io/v1alpha1\nkind: Test\n"

func read(text string) (config, *Document, []Fault) {
	c := config{Master: "default", Timeout: time.Minute}
	d, faults := Read("test.yaml", []byte(text), identity, c.list())
	return c, d, faults
}

func TestRead(t *testing.T) {
	full := config{"m:1", true, 3, 0.5, 90 * time.Minute, []string{"a", "b"}, []box{{"x", 1}, {"y", 2}}}
	for name, c := range map[string]struct {
		text string
		want config
	}{
		"nothing": {head, config{Master: "default", Timeout: time.Minute}},
		"no value leaves the default": {head + "master:\nfailoverTimeout: null\n",
			config{Master: "default", Timeout: time.Minute}},
		"all": {head + "master: m:1\non: true\ncount: 3\nshare: 0.5\nfailoverTimeout: 1h30m\nnames: [a, b]\nboxes:\n- name: x\n  size: 1\n- {name: y, size: 2}\n", full},
		"JSON": {`{"apiVersion": "mesopod.io/v1alpha1", "kind": "Test", "master": "m:1", "on": true, "count": 3, "share": 0.5,
			"failoverTimeout": "90m", "names": ["a", "b"], "boxes": [{"name": "x", "size": 1}, {"name": "y", "size": 2}]}`, full},
		"whole number": {head + "share: 2\nmaster: ''\nfailoverTimeout: 0s", config{Share: 2}},
	} {
		got, _, faults := read(c.text)
		if len(faults) > 0 || cmp.Diff(got, c.want) != "" {
			t.Errorf("%s: faults %v, difference:\n%s", name, faults, cmp.Diff(got, c.want))
		}
	}
}

// What is written is read as the same again, whatever the values are.
func TestWriteIsRead(t *testing.T) {
	for _, want := range []config{
		{},
		{"*", true, -1, 0.25, 7 * 24 * time.Hour, []string{"yes", "a, b", "#", `"`}, []box{{Name: "one: two"}}},
		{"line\nbreak: ü\t", false, 0, 1e-9, 61 * time.Second, []string{""}, []box{{"a", 1}, {"b", 2}}},
	} {
		text := Write("A test.", identity, want.list())
		got, _, faults := read(text)
		if want.Names == nil {
			want.Names = []string{} // an empty list is told
		}
		if len(faults) > 0 || cmp.Diff(got, want) != "" {
			t.Errorf("faults %v, difference:\n%s\nof\n%s", faults, cmp.Diff(got, want), text)
		}
	}
}

// All faults are told at once, in the order of their lines.
func TestFaults(t *testing.T) {
	_, d, faults := read(`apiVersion: mesopod.io/v1alpha1
kind: Other
mastr: m:1
failover-timeout: 5m
on: "true"
count: 1.5
share: much
failoverTimeout: 5
names:
- a
- 1
boxes:
- name: x
- nmae: y
names: [a]
entirelyDifferent: {}
`)
	err := d.Error("test configuration", append(faults, Faultf("names[0]", "%q is taken", "a"), Faultf("nothing", "it is missing")))
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
	want := `test configuration: invalid: 13 faults:
test.yaml: apiVersion and kind must be mesopod.io/v1alpha1 and Test, not "mesopod.io/v1alpha1" and "Other"
nothing: it is missing
test.yaml:3: unknown field mastr; did you mean master?
test.yaml:4: unknown field failover-timeout; did you mean failoverTimeout?
test.yaml:5: on: want true or false, not "true"
test.yaml:6: count: want a whole number, not "1.5"
test.yaml:7: share: want a number, not "much"
test.yaml:8: failoverTimeout: want a time such as 90s, 5m or 168h, not "5"
test.yaml:10: names[0]: "a" is taken
test.yaml:11: names[1]: want a text; write "1" in quotes
test.yaml:14: boxes[1].nmae: unknown field "[1].nmae"
test.yaml:15: field names is named twice
test.yaml:16: unknown field entirelyDifferent`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
}

// A document that is none is told in one sentence.
func TestNoDocument(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "it is empty",
		"- a\n- b\n":                    "want fields",
		"a: [\n":                        "line 1",
		head + "---\n" + head:           "second document begins at line 3",
		head + "a: &x 1\nb: *x\n":       "aliases",
		strings.Repeat("#", maxBytes+1): "at most",
	} {
		if _, d, faults := read(text); len(faults) != 1 || !strings.Contains(d.Error("test", faults).Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, faults, want)
		}
	}
}

// A flag decides over the document, and is named with what is wrong with it; a fault of the document's own value stays one.
func TestFlagOverDocument(t *testing.T) {
	c, d, faults := read(head + "count: many\nmaster: file\n")
	flagged := config{Master: "flag", Count: -1}
	for i, to := range c.list() {
		if to.Flag == "master" || to.Flag == "count" {
			Copy(to, flagged.list()[i])
			d.Given(to)
		}
	}
	if c.Master != "flag" || c.Count != -1 || c.Timeout != time.Minute {
		t.Errorf("got %+v", c)
	}
	err := d.Error("test", append(faults, Faultf("count", "%d is negative", c.Count), Faultf("master", "it is odd")))
	for _, want := range []string{"test.yaml:3: count: want a whole number", "--count: -1 is negative", "--master: it is odd"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + "master: m\nnames: [a]\nboxes: [{name: x}]"))
	f.Add([]byte("{\"apiVersion\":1}"))
	f.Add([]byte(head + "? [a]\n: b\n<<: {x: 1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := config{}
		d, faults := Read("x", text, identity, c.list())
		if err := d.Error("x", faults); (err == nil) != (len(faults) == 0) {
			t.Errorf("%d faults, error %v", len(faults), err)
		}
	})
}
