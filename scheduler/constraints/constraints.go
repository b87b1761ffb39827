// Package constraints says which Mesos agents pods may be placed on, by what operators give agents: attributes, host names,
// fault domains.
//
// It exists because two places ask it: the connection tells Mesos 1.11 and later (offer constraints), which then makes no
// other offers, and the core declines what older masters offer all the same. It is pure. Order of calls: Parse, then
// Subscribe for the call and Unmet for each offer.
package constraints

import (
	"fmt"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// The names that every agent has something for, in place of an attribute's.
const (
	Hostname = "@hostname"
	Region   = "@region"
	Zone     = "@zone"
)

// Rule asks for one attribute. An agent has to meet all rules.
type Rule struct {
	// Name of an attribute, or Hostname, Region or Zone.
	Name string
	// Not asks for the opposite.
	Not bool
	// Value is compared with the text of the attribute, or its number; nil asks whether there is such an attribute.
	Value *string
}

// Parse reads a rule: NAME, !NAME, NAME=VALUE or NAME!=VALUE.
func Parse(text string) (Rule, error) {
	name, value, compares := strings.Cut(text, "=")
	var r Rule
	if compares {
		name, r.Not = strings.CutSuffix(name, "!")
		r.Value = &value
	} else {
		name, r.Not = strings.CutPrefix(name, "!")
	}
	r.Name = strings.TrimSpace(name)
	switch {
	case r.Name == "" || strings.ContainsAny(r.Name, "!=; \t"):
		return Rule{}, fmt.Errorf("%q is none of NAME, !NAME, NAME=VALUE and NAME!=VALUE", text)
	case strings.HasPrefix(r.Name, "@") && pseudo(r.Name) == 0:
		return Rule{}, fmt.Errorf("%q: known are %s, %s and %s", r.Name, Hostname, Region, Zone)
	}
	return r, nil
}

// String is what Parse reads.
func (r Rule) String() string {
	switch {
	case r.Value == nil && r.Not:
		return "!" + r.Name
	case r.Value == nil:
		return r.Name
	case r.Not:
		return r.Name + "!=" + *r.Value
	}
	return r.Name + "=" + *r.Value
}

// Unmet is the first rule that the agent of an offer does not meet, as text; empty when it meets all.
func Unmet(rules []Rule, offer *mesos.Offer) string {
	for _, r := range rules {
		value, has := valueOf(r.Name, offer)
		meets := has
		if r.Value != nil {
			meets = has && value == *r.Value
		}
		if meets == r.Not {
			return r.String()
		}
	}
	return ""
}

// valueOf is the first attribute of a name, as Mesos asks it.
func valueOf(name string, offer *mesos.Offer) (value string, has bool) {
	domain := offer.Domain.GetFaultDomain()
	switch {
	case name == Hostname:
		return offer.Hostname, true
	case pseudo(name) != 0 && domain == nil:
		return "", false
	case name == Region:
		return domain.Region.Name, true
	case name == Zone:
		return domain.Zone.Name, true
	}
	for i := range offer.Attributes {
		a := &offer.Attributes[i]
		if a.Name != name {
			continue
		}
		if a.Type == mesos.SCALAR {
			return strconv.FormatFloat(a.GetScalar().GetValue(), 'f', -1, 64), true
		}
		return a.GetText().GetValue(), true
	}
	return "", false
}
