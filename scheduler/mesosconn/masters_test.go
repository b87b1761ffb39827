package mesosconn

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseMasters(t *testing.T) {
	for _, tc := range []struct {
		in     string
		secure bool
		want   string // hosts, or
		err    string // a part of the error
	}{
		{in: "a:5050", want: "http://a:5050"},
		{in: "a:5050, b:5051 ,", want: "http://a:5050 http://b:5051"},
		{in: "https://a:5050/,10.0.0.1:5050", want: "https://a:5050 http://10.0.0.1:5050"},
		{in: "a:5050,https://b:5050", secure: true, want: "https://a:5050 https://b:5050"},
		{in: "http://a:5050", secure: true, err: "write https"},
		{in: "", err: "no master named"},
		{in: "a", err: `"a": "a" is not host:port`},
		{in: "a:99999", err: "not host:port"},
		{in: "ftp://a:1,http://a:1/x", err: "scheme ftp"},
		{in: "ftp://a:1,http://a:1/x", err: "path /x"},
		{in: "http://me:secret@a:1", err: "set principal and secretFile"},
		{in: "zk://a:2181/mesos", want: "zk://a:2181/mesos"},
		{in: " zk://a:2181,b:2182/one/two/", want: "zk://a:2181,b:2182/one/two"},
		{in: "zk://me:p@ss/w@a:2181/mesos", want: "zk://a:2181/mesos me:p@ss/w"},
		{in: "zk://a:2181", err: "name the node"},
		{in: "zk://a:2181/x//y", err: "name the node"},
		{in: "zk://a/mesos", err: `"a" is not host:port`},
		{in: "zk://me@a:1/mesos", err: "not user:password"},
		{in: "a:1,zk://a:2181/mesos", err: "zk:// stands once"},
	} {
		at, err := parseMasters(tc.in, tc.secure)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "secret@") {
				t.Errorf("%q: got error %v, want one with %q", tc.in, err, tc.err)
			}
			continue
		}
		var got []string
		for _, m := range at.masters {
			got = append(got, m.String())
		}
		if z := at.zooKeeper; z != nil {
			got = append(got, z.String())
			if z.auth != "" {
				got = append(got, z.auth)
			}
		}
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%q: got %v, %v, want %s", tc.in, got, err, tc.want)
		}
	}
}

// A password is for ZooKeeper alone.
func TestPasswordIsNotTold(t *testing.T) {
	for _, where := range []string{"zk://me:s3cret@a:2181/mesos", "zk://me:s3cret@a:2181", "zk://me:s3cret@a/mesos"} {
		at, err := parseMasters(where, false)
		told := fmt.Sprintf("%v %+v %#v %s %v", at.zooKeeper, at.zooKeeper, at.zooKeeper, Redacted(where), err)
		if strings.Contains(told, "s3cret") {
			t.Errorf("%s: told %s", where, told)
		}
	}
	if got := Redacted("a:1,b:2"); got != "a:1,b:2" {
		t.Errorf("got %s", got)
	}
}

// The master with the lowest sequence number leads, whatever else lies beside it (protocol case 69).
func TestLeading(t *testing.T) {
	for _, tc := range []struct {
		nodes []string
		want  string
	}{
		{nil, ""},
		{[]string{"log_replicas", "info_0000000001"}, ""},
		{[]string{"json.info_0000000007", "json.info_0000000005", "log_replicas"}, "json.info_0000000005"},
		{[]string{"json.info_0000000010", "json.info_0000000009"}, "json.info_0000000009"},
		{[]string{"json.info_2147483647", "json.info_-2147483648"}, "json.info_-2147483648"},
		{[]string{"json.info_", "json.info_x", "json.info_0000000001"}, "json.info_0000000001"},
	} {
		if got := leading(tc.nodes); got != tc.want {
			t.Errorf("%v: got %q, want %q", tc.nodes, got, tc.want)
		}
	}
}

func TestParseMasterInfo(t *testing.T) {
	whole := `{"address":{"hostname":"m1.test","ip":"10.0.0.1","port":5050},"hostname":"m1.test","id":"x","ip":16777226,"pid":"master@10.0.0.1:5050","port":5050,"version":"1.11.0"}`
	for _, tc := range []struct {
		text   string
		secure bool
		want   string
	}{
		{whole, false, "http://10.0.0.1:5050"},
		{whole, true, "https://m1.test:5050"},
		{`{"pid":"master@10.0.0.2:5051"}`, false, "http://10.0.0.2:5051"},
		{`{"pid":"master@10.0.0.2:5051"}`, true, "https://10.0.0.2:5051"},
		{`{"address":{"ip":"::1","port":1}}`, false, "http://[::1]:1"},
		{`{}`, false, ""},
		{"\x00", false, ""},
	} {
		got, err := parseMasterInfo([]byte(tc.text), tc.secure)
		if (err != nil) != (tc.want == "") || err == nil && got.String() != tc.want {
			t.Errorf("%s: got %v, %v, want %s", tc.text, got, err, tc.want)
		}
	}
}

// The client pauses once all servers were tried, and at once where the only one lets us in and drops us.
func TestServersInTurn(t *testing.T) {
	s := &servers{}
	if err := s.Init([]string{"a", "b"}); err != nil || s.Len() != 2 {
		t.Fatal(s.Len(), err)
	}
	var got []string
	for range 5 {
		server, all := s.Next()
		got = append(got, fmt.Sprint(server, all))
	}
	s.Connected() // to a
	for range 2 {
		server, all := s.Next()
		got = append(got, fmt.Sprint(server, all))
	}
	if want := "afalse bfalse atrue bfalse atrue bfalse atrue"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
