package messages

import "encoding/json"

// Bundle is the archive of programs that the scheduler wants executors to run from: a part of the launch envelope. An
// executor that runs from another one has its keeper bring it, and goes on from there; the launch does not wait for that.
type Bundle struct {
	// SHA256 of the archive, 64 lower-case hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Sources are where it can be had, the best first: absolute paths of folders on agents and http(s) URLs of folders, in
	// which it has its SHA-256 for a name.
	Sources []string `json:"sources"`
}

// BundleOf reads the Bundle of an envelope, whatever else is in it; false if it has none. Who fetches it checks its parts.
func BundleOf(envelope []byte) (Bundle, bool) {
	var l struct {
		Bundle *Bundle `json:"bundle"`
	}
	if len(envelope) > MaxLaunchBytes || json.Unmarshal(envelope, &l) != nil || l.Bundle == nil || l.Bundle.SHA256 == "" {
		return Bundle{}, false
	}
	return *l.Bundle, true
}
