package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/executor/ledger"
)

// TestPrevious: an executor goes on from the ledger of the version before, which testdata has as that one wrote it.
func TestPrevious(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "previous.ledger"))
	if err != nil {
		t.Fatal(err)
	}
	got, records, damage := ledger.Decode(data)
	if got != owner || damage.Torn != 0 || damage.Err() != nil {
		t.Errorf("owner %v, torn %d, damage %v", got, damage.Torn, damage.Err())
	}
	if diff := cmp.Diff(sample(), records); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
