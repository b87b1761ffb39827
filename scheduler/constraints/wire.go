package constraints

import "google.golang.org/protobuf/encoding/protowire"

// The numbers in mesos/v1/scheduler/scheduler.proto of Mesos 1.11, which mesos-go is too old for.
const (
	callSubscribe    = 3
	offerConstraints = 3 // of Call.Subscribe

	predicateExists, predicateNotExists   = 1, 2
	predicateEquals, predicateNotEquals   = 3, 4
	selectorPseudoattribute, selectorName = 1, 2
)

// pseudo is the number of a pseudo-attribute, 0 for a name of an attribute.
func pseudo(name string) uint64 {
	switch name {
	case Hostname:
		return 1
	case Region:
		return 2
	case Zone:
		return 3
	}
	return 0
}

// Subscribe is an encoded Call.Subscribe as a field of an encoded Call without one, with the rules in it: the master then makes
// offers in the roles of agents only that meet all of them. One that does not know the field passes over it.
func Subscribe(subscribe []byte, rules []Rule, roles []string) []byte {
	if len(rules) > 0 {
		subscribe = message(subscribe, offerConstraints, encode(rules, roles))
	}
	return message(nil, callSubscribe, subscribe)
}

// encode is an OfferConstraints.
func encode(rules []Rule, roles []string) (all []byte) {
	var group []byte
	for _, r := range rules {
		group = message(group, 1, r.encode())
	}
	for _, role := range roles {
		entry := protowire.AppendTag(nil, 1, protowire.BytesType)
		entry = protowire.AppendString(entry, role)
		entry = message(entry, 2, message(nil, 1, group))
		all = message(all, 1, entry)
	}
	return all
}

func (r Rule) encode() []byte {
	var selector []byte
	if number := pseudo(r.Name); number != 0 {
		selector = protowire.AppendTag(selector, selectorPseudoattribute, protowire.VarintType)
		selector = protowire.AppendVarint(selector, number)
	} else {
		selector = message(selector, selectorName, []byte(r.Name))
	}
	// Mesos' comparisons hold for attributes that are no text, which are left to the core.
	kind, value := protowire.Number(predicateExists), []byte(nil)
	switch {
	case r.Value != nil && r.Not:
		kind, value = predicateNotEquals, message(nil, 1, []byte(*r.Value))
	case r.Value != nil:
		kind, value = predicateEquals, message(nil, 1, []byte(*r.Value))
	case r.Not:
		kind = predicateNotExists
	}
	return message(message(nil, 1, selector), 2, message(nil, kind, value))
}

// message appends a field that is a message or bytes.
func message(to []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), data)
}
