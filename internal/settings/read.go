package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
)

// maxBytes bounds a document: one that is larger is no configuration, and aliases could make much of little.
const maxBytes = 1 << 20

// Read lays a document over what the list's variables hold. It reads to the end and tells all faults: fields that are
// unknown or named twice, and values of another type. A field without a value leaves the variable alone.
func Read(name string, text []byte, want Identity, list []Setting) (*Document, []Fault) {
	d := &Document{Name: name, lines: map[string]int{}}
	if len(text) > maxBytes {
		return d, []Fault{Faultf("", "it has %d bytes, %d at most", len(text), maxBytes)}
	}
	root, err := parse(text)
	if err != nil {
		return d, []Fault{{Err: err}}
	}
	if root.Kind != yaml.MappingNode {
		return d, []Fault{{Line: root.Line, Err: errors.New("want fields with values, such as kind: " + want.Kind)}}
	}
	if place := alias(root); place != nil {
		return d, []Fault{{Line: place.Line, Err: errors.New("aliases and merge keys are not supported: write the value out")}}
	}
	d.note("", root)
	var got Identity
	all := append([]Setting{{Key: "apiVersion", Value: &got.APIVersion}, {Key: "kind", Value: &got.Kind}}, list...)
	faults := d.fields(root, all)
	if got != want {
		faults = append(faults, Faultf("", "apiVersion and kind must be %s and %s, not %q and %q", want.APIVersion, want.Kind, got.APIVersion, got.Kind))
	}
	for i, f := range faults {
		faults[i].Line, _ = d.place(f) // whatever flags will say, this is the file's
	}
	return d, faults
}

// parse reads the one document of the text.
func parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, fmt.Errorf("a second document begins at line %d: want one", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return document.Content[0], nil
}

// alias finds a use of an anchor, nil if there is none.
func alias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for _, below := range node.Content {
		if found := alias(below); found != nil {
			return found
		}
	}
	return nil
}

// note remembers the lines of everything below a place.
func (d *Document) note(place string, node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if place != "" {
				key = place + "." + key
			}
			if _, again := d.lines[key]; !again {
				d.lines[key] = node.Content[i].Line
				d.note(key, node.Content[i+1])
			}
		}
	case yaml.SequenceNode:
		for i, below := range node.Content {
			key := fmt.Sprintf("%s[%d]", place, i)
			d.lines[key] = below.Line
			d.note(key, below)
		}
	}
}

// fields decodes the document's fields.
func (d *Document) fields(root *yaml.Node, list []Setting) (faults []Fault) {
	byKey := make(map[string]Setting, len(list))
	for _, s := range list {
		byKey[s.Key] = s
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		s, known := byKey[key.Value]
		switch {
		case !known:
			faults = append(faults, Fault{Line: key.Line, Err: fmt.Errorf("unknown field %s%s", key.Value, suggest(key.Value, list))})
		case seen[s.Key]:
			faults = append(faults, Fault{Line: key.Line, Err: fmt.Errorf("field %s is named twice", s.Key)})
		default:
			seen[s.Key] = true
			faults = append(faults, decode(s, value)...)
		}
	}
	return faults
}

// decode sets one variable. Text, numbers and truth are not taken for each other, as YAML would.
func decode(s Setting, node *yaml.Node) []Fault {
	if node.Tag == "!!null" {
		return nil
	}
	wrong := func(want string) []Fault {
		return []Fault{{Key: s.Key, Line: node.Line, Err: fmt.Errorf("want %s, not %s", want, brief(node))}}
	}
	switch v := s.Value.(type) {
	case *string:
		if node.Tag != "!!str" {
			return wrong("a text; write it in quotes")
		}
		*v = node.Value
	case *bool:
		if node.Tag != "!!bool" || node.Decode(v) != nil {
			return wrong("true or false")
		}
	case *int:
		if node.Tag != "!!int" || node.Decode(v) != nil {
			return wrong("a whole number")
		}
	case *float64:
		if node.Tag != "!!int" && node.Tag != "!!float" || node.Decode(v) != nil {
			return wrong("a number")
		}
	case *time.Duration:
		length, err := time.ParseDuration(node.Value)
		if err != nil || node.Kind != yaml.ScalarNode {
			return wrong("a time such as 90s, 5m or 168h")
		}
		*v = length
	case *[]string:
		if node.Kind != yaml.SequenceNode {
			return wrong("a list of texts")
		}
		return texts(s.Key, v, node)
	default:
		return structured(s, node)
	}
	return nil
}

func texts(key string, into *[]string, list *yaml.Node) (faults []Fault) {
	*into = make([]string, len(list.Content))
	for i, node := range list.Content {
		(*into)[i] = node.Value
		if node.Tag != "!!str" {
			faults = append(faults, Fault{Key: fmt.Sprintf("%s[%d]", key, i), Line: node.Line, Err: fmt.Errorf("want a text; write %s in quotes", brief(node))})
		}
	}
	return faults
}

// brief shows a value in an error. What is long or deep is not repeated.
func brief(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	if len(node.Value) > 40 {
		return fmt.Sprintf("%q...", node.Value[:40])
	}
	return fmt.Sprintf("%q", node.Value)
}

// at finds the place in an error of a strict decoder: unknown field "a[0].b".
var at = regexp.MustCompile(`field "([^"]+)"`)

// structured decodes a setting with json tags.
func structured(s Setting, node *yaml.Node) []Fault {
	var value any
	if err := node.Decode(&value); err != nil {
		return []Fault{{Key: s.Key, Line: node.Line, Err: err}}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return []Fault{{Key: s.Key, Line: node.Line, Err: fmt.Errorf("names of fields must be texts: %w", err)}}
	}
	strict, err := strictjson.UnmarshalStrict(data, s.Value)
	if err != nil {
		strict = append(strict, err)
	}
	var faults []Fault
	for _, err := range strict {
		faults = append(faults, Below(s.Key, err))
	}
	return faults
}

// Below is a fault of a strict decoder of Kubernetes' that read the value of a setting: the field that it names is where
// the fault is.
func Below(key string, err error) Fault {
	if found := at.FindStringSubmatch(err.Error()); found != nil {
		place := found[1]
		if !strings.HasPrefix(place, "[") {
			place = "." + place
		}
		return Fault{Key: key + place, Err: err}
	}
	return Fault{Key: key, Err: err}
}
