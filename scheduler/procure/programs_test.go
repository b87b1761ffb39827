package procure

import "testing"

// What ExecutorInfo says of programs is the same for every agent and pod, and safe for the shell.
func TestPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"folder": {Config{BundleDir: "/opt/mesopod"}, "exec ./mesopod-keeper --bundle-dir=/opt/mesopod"},
		"bundle": {
			Config{BundleDir: "/opt/mesopod", Bundle: Bundle{SHA256: "ab12", Sources: []string{"https://s:1/v1/bundle", "/mnt/b"}, CacheDir: "/var/b"}},
			"exec ./mesopod-keeper --bundle=ab12 --bundle-source='https://s:1/v1/bundle' --bundle-source=/mnt/b --bundle-cache=/var/b",
		},
		"hostile": {
			Config{Bundle: Bundle{SHA256: "ab12", Sources: []string{"http://$(x)'"}, CacheDir: "/a b"}},
			`exec ./mesopod-keeper --bundle=ab12 --bundle-source='http://$(x)'\''' --bundle-cache='/a b'`,
		},
	} {
		if got := Executor(c.config, "f", nil).Command.GetValue(); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
