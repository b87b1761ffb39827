// Package constraints is what offer constraints of Mesos 1.11 mean: frameworks say by role which agents they want offers of, by
// their attributes, host names and fault domains. It is pure. mesos-go has no types for them, so the wire is read here too:
// [FromJSON], [FromProtobuf].
package constraints

import (
	"errors"
	"fmt"
	"regexp"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Set are the constraints of a framework, by role. A role without an entry takes offers of all agents.
type Set map[string][]Group

// Group is met if all its constraints are. Of several groups one has to be met.
type Group []Constraint

// Constraint is a question about one attribute or pseudo-attribute.
type Constraint struct {
	// Attribute is a name, unless Pseudo is set.
	Attribute string
	Pseudo    Pseudo
	Predicate Predicate
	// Text to compare with; Pattern for the two predicates that match.
	Text    string
	pattern *regexp.Regexp
}

// Pseudo is an attribute that every agent has.
type Pseudo int32

// The pseudo-attributes, by their number on the wire.
const (
	Hostname Pseudo = iota + 1
	Region
	Zone
)

// Predicate is what is asked.
type Predicate int

// The predicates, by the number of their field on the wire. The four about text hold for every attribute that is not text: the
// framework has to look again.
const (
	Exists Predicate = iota + 1
	NotExists
	TextEquals
	TextNotEquals
	TextMatches
	TextNotMatches
)

// Agent is what constraints ask about.
type Agent struct {
	Hostname, Region, Zone string
	Attributes             []mesos.Attribute
}

// Admit tells whether offers of the agent may be made in the role.
func (s Set) Admit(role string, a Agent) bool {
	groups, constrained := s[role]
	if !constrained {
		return true
	}
	for _, group := range groups {
		if group.met(a) {
			return true
		}
	}
	return false
}

func (g Group) met(a Agent) bool {
	for i := range g {
		if !g[i].holds(a) {
			return false
		}
	}
	return true
}

// holds asks the first attribute of the name.
func (c *Constraint) holds(a Agent) bool {
	value, exists, text := "", false, true
	switch c.Pseudo {
	case Hostname:
		value, exists = a.Hostname, true
	case Region:
		value, exists = a.Region, a.Region != ""
	case Zone:
		value, exists = a.Zone, a.Zone != ""
	default:
		for i := range a.Attributes {
			if one := &a.Attributes[i]; one.Name == c.Attribute {
				value, exists, text = one.GetText().GetValue(), true, one.Type == mesos.TEXT
				break
			}
		}
	}
	switch c.Predicate {
	case Exists:
		return exists
	case NotExists:
		return !exists
	case TextEquals, TextMatches:
		return exists && (!text || c.same(value))
	default:
		return !exists || !text || !c.same(value)
	}
}

func (c *Constraint) same(value string) bool {
	if c.pattern != nil {
		return c.pattern.MatchString(value)
	}
	return c.Text == value
}

// check prepares the constraint, or tells what is wrong with it.
func (c *Constraint) check() error {
	switch {
	case c.Attribute == "" && (c.Pseudo < Hostname || c.Pseudo > Zone):
		return errors.New("the selector has neither an attribute's name nor a known pseudo-attribute")
	case c.Predicate < Exists || c.Predicate > TextNotMatches:
		return errors.New("the constraint has no known predicate")
	case c.Predicate == TextMatches || c.Predicate == TextNotMatches:
		pattern, err := regexp.Compile("^(?:" + c.Text + ")$") // the whole text has to match
		if err != nil {
			return fmt.Errorf("failed to construct regex from pattern '%s': %w", c.Text, err)
		}
		c.pattern = pattern
	}
	return nil
}

// Check prepares all constraints, and tells the first fault. A role that the framework is not in is none.
func (s Set) Check() error {
	for role, groups := range s {
		if len(groups) == 0 {
			return fmt.Errorf("'OfferConstraints::role_constraints' has an empty 'RoleConstraints::groups' for role %s", role)
		}
		for _, group := range groups {
			if len(group) == 0 {
				return fmt.Errorf("'OfferConstraints::RoleConstraints::groups' for role %s contains an empty RoleConstraints::Group", role)
			}
			for i := range group {
				if err := group[i].check(); err != nil {
					return fmt.Errorf("role %s has an invalid 'AttributeConstraint': %w", role, err)
				}
			}
		}
	}
	return nil
}
