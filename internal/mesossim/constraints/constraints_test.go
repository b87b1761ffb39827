package constraints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"google.golang.org/protobuf/encoding/protowire"
)

// field is one of a message: text, or what sub gives.
func field(number protowire.Number, sub []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), sub)
}

func join(parts ...[]byte) (all []byte) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// TestBothEncodings: what is said in JSON and in protobuf is the same, in SUBSCRIBE and in UPDATE_FRAMEWORK.
func TestBothEncodings(t *testing.T) {
	inner := `{"framework_info":{"user":"root","name":"f"},"offer_constraints":{"role_constraints":{"a/b":{"groups":[
		{"attribute_constraints":[{"selector":{"attribute_name":"rack"},"predicate":{"text_matches":{"regex":"r.*"}}},
		{"selector":{"pseudoattribute_type":"ZONE"},"predicate":{"not_exists":{}}}]}]}}}}`
	region := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(Zone))
	wire := join(field(1, []byte("what is not ours")), field(3, field(1, join(field(1, []byte("a/b")), field(2, field(1, join(
		field(1, join(field(1, field(2, []byte("rack"))), field(2, field(5, field(1, []byte("r.*")))))),
		field(1, join(field(1, region), field(2, field(2, nil)))))))))))
	want := Set{"a/b": {{{Attribute: "rack", Predicate: TextMatches, Text: "r.*"}, {Pseudo: Zone, Predicate: NotExists}}}}
	for name, number := range map[string]protowire.Number{"subscribe": 3, "update_framework": 19} {
		for encoding, read := range map[string]func() (Set, error){
			"JSON":     func() (Set, error) { return FromJSON([]byte(`{"type":"X","` + name + `":` + inner + `}`)) },
			"protobuf": func() (Set, error) { return FromProtobuf(field(number, wire)) },
		} {
			got, err := read()
			if err != nil {
				t.Fatalf("%s in %s: %v", name, encoding, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Constraint{})); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", name, encoding, diff)
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, none := range []string{`{}`, `{"subscribe":{"framework_info":{}}}`} {
		if got, err := FromJSON([]byte(none)); got != nil || err != nil {
			t.Errorf("%s: %v, %v", none, got, err)
		}
	}
	if got, err := FromProtobuf(field(3, field(1, nil))); got != nil || err != nil {
		t.Errorf("no constraints: %v, %v", got, err)
	}
	if _, err := FromProtobuf([]byte{0xff}); err == nil {
		t.Error("garbage was read")
	}
}

// TestAdmit is about fault domains, which the agents of the conformance suite lack.
func TestAdmit(t *testing.T) {
	agent := Agent{Hostname: "h", Region: "eu", Zone: "eu-1", Attributes: []mesos.Attribute{{Name: "n", Type: mesos.SCALAR}}}
	is := func(p Pseudo, what Predicate, text string) Set {
		return Set{"r": {{{Pseudo: p, Predicate: what, Text: text}}}}
	}
	for _, c := range []struct {
		set  Set
		want bool
	}{
		{is(Region, TextEquals, "eu"), true}, {is(Region, TextEquals, "us"), false}, {is(Zone, TextNotEquals, "eu-1"), false},
		{is(Zone, Exists, ""), true}, {is(Hostname, TextMatches, "[a-h]"), true}, {is(Hostname, TextNotMatches, "h+"), false},
		{Set{"other": {{{Attribute: "x", Predicate: Exists}}}}, true}, {nil, true},
	} {
		if err := c.set.Check(); err != nil {
			t.Fatal(err)
		}
		if got := c.set.Admit("r", agent); got != c.want {
			t.Errorf("%+v: admits %v, want %v", c.set, got, c.want)
		}
	}
}
