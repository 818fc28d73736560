package lifecycle

import (
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

func TestTheAlarmOfAMissingCardSaysWhetherItIsHeld(t *testing.T) {
	t.Parallel()
	for held, want := range map[bool]string{true: "; what was held of it stays held", false: "; nothing of it is held"} {
		got := cardAlarms(postgres.CardCondition{Node: "n1", Address: "0000:01:00.0", Model: "h100-80gb", State: cloud.GPUMissing, Held: held})
		if len(got) != 1 || !strings.HasSuffix(got[0].Message, want) {
			t.Errorf("held %t: %+v", held, got)
		}
	}
}
