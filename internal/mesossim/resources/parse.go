package resources

import (
	"fmt"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Parse reads the notation of the agent's flag --resources, such as cpus:4;mem:2048;ports:[31000-32000];cpus(web):1.
func Parse(text string) (Bag, error) {
	var list []mesos.Resource
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		r, err := parseOne(part)
		if err != nil {
			return nil, fmt.Errorf("resources %q: %q: %w", text, part, err)
		}
		list = append(list, r)
	}
	return Of(list)
}

func parseOne(part string) (mesos.Resource, error) {
	name, value, ok := strings.Cut(part, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || value == "" {
		return mesos.Resource{}, fmt.Errorf("want NAME:VALUE")
	}
	var r mesos.Resource
	if before, role, reserved := strings.Cut(name, "("); reserved {
		name, role = before, strings.TrimSuffix(role, ")")
		if role != Unreserved {
			r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}}
		}
	}
	r.Name = name
	switch value[0] {
	case '[':
		r.Type, r.Ranges = mesos.RANGES.Enum(), &mesos.Value_Ranges{}
		for span := range strings.SplitSeq(strings.Trim(value, "[] "), ",") {
			from, to, _ := strings.Cut(strings.TrimSpace(span), "-")
			begin, err := strconv.ParseUint(strings.TrimSpace(from), 10, 64)
			if err != nil {
				return r, err
			}
			end, err := strconv.ParseUint(strings.TrimSpace(to), 10, 64)
			if err != nil {
				return r, err
			}
			r.Ranges.Range = append(r.Ranges.Range, mesos.Value_Range{Begin: begin, End: end})
		}
	case '{':
		r.Type, r.Set = mesos.SET.Enum(), &mesos.Value_Set{}
		for item := range strings.SplitSeq(strings.Trim(value, "{} "), ",") {
			r.Set.Item = append(r.Set.Item, strings.TrimSpace(item))
		}
	default:
		amount, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return r, err
		}
		r.Type, r.Scalar = mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: amount}
	}
	return r, nil
}

// Attributes reads the notation of the agent's flag --attributes, such as rack:r1;zone:z1;cores:8.
func Attributes(text string) ([]mesos.Attribute, error) {
	var list []mesos.Attribute
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("attributes %q: %q: want NAME:VALUE", text, part)
		}
		attribute := mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			attribute.Type, attribute.Text, attribute.Scalar = mesos.SCALAR, nil, &mesos.Value_Scalar{Value: number}
		} else if value != "" && value[0] == '[' {
			r, err := parseOne(part)
			if err != nil {
				return nil, fmt.Errorf("attributes %q: %w", text, err)
			}
			attribute.Type, attribute.Text, attribute.Ranges = mesos.RANGES, nil, r.Ranges
		}
		list = append(list, attribute)
	}
	return list, nil
}
