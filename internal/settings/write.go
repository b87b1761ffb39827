package settings

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Write prints a document with each setting, its help as a comment, and what its variable holds. head is a comment above
// all, without the sign.
func Write(head string, identity Identity, list []Setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\napiVersion: %s\nkind: %s\n", head, identity.APIVersion, identity.Kind)
	for _, s := range list {
		fmt.Fprintf(&b, "\n# %s%s.", strings.ToUpper(s.Help[:1]), s.Help[1:])
		if s.Flag != "" {
			fmt.Fprintf(&b, " Flag --%s.", s.Flag)
		}
		fmt.Fprintf(&b, "\n%s:%s\n", s.Key, encode(s.Value))
	}
	return b.String()
}

// Text is a setting's value as a document writes it in one line; "" for one that is empty.
func Text(s Setting) string { return strings.TrimSpace(encode(s.Value)) }

// encode writes a value after the colon of its key, with what has to stand between.
func encode(value any) string {
	switch v := value.(type) {
	case *string:
		return " " + quote(*v)
	case *bool:
		return " " + strconv.FormatBool(*v)
	case *int:
		return " " + strconv.Itoa(*v)
	case *float64:
		return " " + strconv.FormatFloat(*v, 'g', -1, 64)
	case *time.Duration:
		return " " + Duration(*v)
	case *[]string:
		quoted := make([]string, len(*v))
		for i, text := range *v {
			quoted[i] = quote(text)
		}
		return " [" + strings.Join(quoted, ", ") + "]"
	}
	data, err := json.Marshal(value)
	if err != nil || string(data) == "null" {
		return "" // a field without a value
	}
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		return " " + string(data) // JSON is YAML
	}
	if one := strings.TrimRight(string(text), "\n"); !strings.Contains(one, "\n") && !strings.Contains(one, ": ") {
		return " " + one
	}
	return "\n  " + strings.ReplaceAll(strings.TrimRight(string(text), "\n"), "\n", "\n  ")
}

// quote writes a text so that YAML reads the same one. JSON's form of it is YAML's double-quoted form.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		return strconv.Quote(text)
	}
	return string(data)
}

// Duration writes a time without the parts that are zero: 168h, not 168h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
