package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Another board is refused while a card is held that it has not, by a look that
// changes nothing.
func TestABoardFitsWhatIsHeld(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sim")
	if err := Fits(dir, "a30"); err != nil {
		t.Errorf("a new node: %v", err)
	}
	cfg := Config{Board: "hgx-h100", CloudID: "test", StateDir: dir}
	b := open(t, cfg)
	cards := inventory(t, b)
	if err := Fits(dir, "a30"); err != nil {
		t.Errorf("nothing is held: %v", err)
	}
	last := cards[len(cards)-1]
	if _, err := b.Prepare(t.Context(), device.Request{InstanceID: "inst_a", Epoch: 1, Kind: "container", Devices: []nodewire.Device{{GPUUUID: last.UUID, Mode: "whole", Profile: "whole", SlotEnd: 8}}}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Fits(dir, "a30"); err == nil || !strings.Contains(err.Error(), "inst_a holds card "+last.UUID) || !strings.Contains(err.Error(), `board "a30" has not`) {
		t.Errorf("a board without the held card: %v", err)
	}
	if err := Fits(dir, "hgx-h100"); err != nil {
		t.Errorf("the board itself: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "state.json")); err != nil || string(after) != string(before) {
		t.Errorf("the look changed the state: %v", err)
	}
	if err := b.Release(t.Context(), "inst_a", 1); err != nil {
		t.Fatal(err)
	}
	if err := Fits(dir, "a30"); err != nil {
		t.Errorf("once nothing is held: %v", err)
	}
}

// Another board has other cards, whatever their index; a folder that was made before
// boards were told apart keeps the cards that it had.
func TestAnotherBoardHasOtherCards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := inventory(t, open(t, Config{Board: "hgx-h100", CloudID: "test", StateDir: dir}))
	for _, g := range inventory(t, open(t, Config{Board: "a30", CloudID: "test", StateDir: dir})) {
		if g.UUID == first[g.Index].UUID {
			t.Errorf("card %d of another board is %s too", g.Index, g.UUID)
		}
	}
	if again := inventory(t, open(t, Config{Board: "hgx-h100", CloudID: "test", StateDir: dir})); again[0].UUID != first[0].UUID {
		t.Error("a board's cards are not the same again")
	}
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "state.json"), []byte(`{"format":1,"seed":"x","held":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if g := inventory(t, open(t, Config{Board: "local", CloudID: "test", StateDir: old})); g[0].UUID != "GPU-SIM-8b17169f"+g[0].UUID[16:] {
		t.Errorf("a card of before is now %s", g[0].UUID)
	}
}
