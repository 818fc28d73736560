package app

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/placement"
)

// What can never start has nothing free for it, whatever others could have.
func TestNothingIsFreeForWhatNeverFits(t *testing.T) {
	t.Parallel()
	d := DryRun{FreeNow: 1}
	if d.refuse(&placement.Refusal{NeverFits: true}); d.FreeNow != 0 || !d.NeverFits {
		t.Errorf("never: %+v", d)
	}
	d = DryRun{FreeNow: 1}
	if d.refuse(&placement.Refusal{}); d.FreeNow != 1 || d.NeverFits {
		t.Errorf("later: %+v", d)
	}
}
