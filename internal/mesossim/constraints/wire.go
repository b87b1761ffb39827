package constraints

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// text is how the predicates about text look in JSON.
type text struct {
	Value string `json:"value"`
	Regex string `json:"regex"`
}

// wire is a SUBSCRIBE or UPDATE_FRAMEWORK in JSON, as far as constraints go.
type wire struct {
	Subscribe       *holder `json:"subscribe"`
	UpdateFramework *holder `json:"update_framework"`
}

type holder struct {
	OfferConstraints *struct {
		RoleConstraints map[string]struct {
			Groups []struct {
				AttributeConstraints []struct {
					Selector struct {
						PseudoattributeType string `json:"pseudoattribute_type"`
						AttributeName       string `json:"attribute_name"`
					} `json:"selector"`
					Predicate map[string]text `json:"predicate"`
				} `json:"attribute_constraints"`
			} `json:"groups"`
		} `json:"role_constraints"`
	} `json:"offer_constraints"`
}

var (
	pseudos    = map[string]Pseudo{"HOSTNAME": Hostname, "REGION": Region, "ZONE": Zone}
	predicates = map[string]Predicate{"exists": Exists, "not_exists": NotExists, "text_equals": TextEquals, "text_not_equals": TextNotEquals,
		"text_matches": TextMatches, "text_not_matches": TextNotMatches}
)

// FromJSON reads the constraints of a call, nil if it has none. Check tells whether they are good.
func FromJSON(call []byte) (Set, error) {
	var w wire
	if err := json.Unmarshal(call, &w); err != nil {
		return nil, err
	}
	of := w.Subscribe
	if of == nil {
		of = w.UpdateFramework
	}
	if of == nil || of.OfferConstraints == nil {
		return nil, nil
	}
	set := Set{}
	for role, constraints := range of.OfferConstraints.RoleConstraints {
		groups := []Group{}
		for _, one := range constraints.Groups {
			var group Group
			for _, a := range one.AttributeConstraints {
				c := Constraint{Attribute: a.Selector.AttributeName, Pseudo: pseudos[a.Selector.PseudoattributeType]}
				for name, t := range a.Predicate {
					c.Predicate, c.Text = predicates[name], t.Value+t.Regex
				}
				group = append(group, c)
			}
			groups = append(groups, group)
		}
		set[role] = groups
	}
	return set, nil
}

// The numbers of fields in mesos/v1/scheduler/scheduler.proto of Mesos 1.11.
const (
	callSubscribe       = 3
	callUpdateFramework = 19
	offerConstraints    = 3 // of both
)

// FromProtobuf is FromJSON for the other encoding.
func FromProtobuf(call []byte) (set Set, err error) {
	err = fields(call, func(number protowire.Number, sub []byte, _ uint64) error {
		if number != callSubscribe && number != callUpdateFramework {
			return nil
		}
		return fields(sub, func(number protowire.Number, sub []byte, _ uint64) error {
			if number != offerConstraints {
				return nil
			}
			if set == nil {
				set = Set{}
			}
			return fields(sub, func(_ protowire.Number, entry []byte, _ uint64) error { return set.entry(entry) })
		})
	})
	return set, err
}

// entry reads a role with its groups.
func (s Set) entry(data []byte) error {
	role, groups := "", []Group{}
	err := fields(data, func(number protowire.Number, sub []byte, _ uint64) error {
		if number == 1 {
			role = string(sub)
			return nil
		}
		return fields(sub, func(_ protowire.Number, sub []byte, _ uint64) error {
			var group Group
			err := fields(sub, func(_ protowire.Number, sub []byte, _ uint64) error {
				c, err := constraint(sub)
				group = append(group, c)
				return err
			})
			groups = append(groups, group)
			return err
		})
	})
	s[role] = groups
	return err
}

func constraint(data []byte) (c Constraint, err error) {
	err = fields(data, func(number protowire.Number, sub []byte, _ uint64) error {
		if number == 1 { // selector
			return fields(sub, func(number protowire.Number, name []byte, value uint64) error {
				if number == 1 {
					c.Pseudo = Pseudo(value)
				} else {
					c.Attribute = string(name)
				}
				return nil
			})
		}
		return fields(sub, func(number protowire.Number, sub []byte, _ uint64) error {
			c.Predicate = Predicate(number)
			return fields(sub, func(_ protowire.Number, sub []byte, _ uint64) error { c.Text = string(sub); return nil })
		})
	})
	return c, err
}

// fields calls each with every field of a message: its bytes, or its number.
func fields(data []byte, each func(protowire.Number, []byte, uint64) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errors.New("not protobuf")
		}
		data = data[n:]
		var sub []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			sub, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return fmt.Errorf("field %d is no protobuf", number)
		}
		data = data[n:]
		if err := each(number, sub, value); err != nil {
			return err
		}
	}
	return nil
}
