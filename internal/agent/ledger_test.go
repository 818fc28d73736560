package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func assignment(era string, gen int64, instances ...nodewire.Instance) nodewire.Assignment {
	return nodewire.Assignment{
		Version: nodewire.Version{Era: era, Generation: gen}, NodeID: "node_1", CloudID: "c1", Instances: instances,
	}
}

func TestLedgerSurvivesAndIsPrivate(t *testing.T) {
	t.Parallel()
	store := FileStore(filepath.Join(t.TempDir(), "deep", "ledger.json"))
	l, err := openLedger(store)
	if err != nil {
		t.Fatal(err)
	}
	as := assignment("e1", 1, nodewire.Instance{ID: "inst_1", Epoch: 3})
	if err := l.update(func(s *state) error {
		s.assign(&as)
		s.Records["inst_1"] = record{Epoch: 3, Earlier: []int64{2}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(string(store))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	again, err := openLedger(store)
	if err != nil {
		t.Fatal(err)
	}
	s := again.snapshot()
	if s.version() != as.Version || s.want("inst_1") == nil || s.Records["inst_1"].Earlier[0] != 2 {
		t.Fatalf("read back: %+v", s)
	}
}

func TestDamagedLedgerIsNeverAnEmptyOne(t *testing.T) {
	t.Parallel()
	good := func(t *testing.T) (FileStore, string) {
		store := FileStore(filepath.Join(t.TempDir(), "ledger.json"))
		l, err := openLedger(store)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.update(func(s *state) error { s.Records["inst_1"] = record{Epoch: 3}; return nil }); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(string(store))
		if err != nil {
			t.Fatal(err)
		}
		return store, string(raw)
	}
	for name, damage := range map[string]func(string) string{
		"empty file":    func(string) string { return "" },
		"cut short":     func(s string) string { return s[:len(s)/2] },
		"one digit":     func(s string) string { return strings.Replace(s, `"epoch":3`, `"epoch":4`, 1) },
		"newer format":  func(s string) string { return strings.Replace(s, `"format":1`, `"format":2`, 1) },
		"not a ledger":  func(string) string { return `{"hello":"world"}` },
		"zeros of disk": func(s string) string { return strings.Repeat("\x00", len(s)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, raw := good(t)
			if err := os.WriteFile(string(store), []byte(damage(raw)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := New(Config{Door: &fakeDoor{}, Store: store})
			if err == nil {
				t.Fatal("the agent started on a damaged ledger")
			}
			for _, word := range []string{string(store), "restore the file from a backup"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the message does not say %q: %v", word, err)
				}
			}
		})
	}
}

// brokenStore is a disk that is full.
type brokenStore struct {
	MemoryStore
	mu   sync.Mutex
	full bool
}

func (b *brokenStore) Save(raw []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return errors.New("no space left on device")
	}
	return b.MemoryStore.Save(raw)
}

func TestFullDiskChangesNothing(t *testing.T) {
	t.Parallel()
	store := &brokenStore{}
	a, err := New(Config{Door: &fakeDoor{}, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Assign(assignment("e1", 1, container("inst_1", 1))); err != nil {
		t.Fatal(err)
	}
	store.full = true
	held, err := a.Assign(assignment("e1", 2))
	if err == nil || held.Generation != 1 {
		t.Fatalf("held %+v, %v", held, err)
	}
	if a.ledger.snapshot().want("inst_1") == nil {
		t.Fatal("an assignment that was not written is acted on")
	}
}

func TestLedgerWritesTogether(t *testing.T) {
	t.Parallel()
	l, err := openLedger(&MemoryStore{})
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("refused")
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			id := "inst_" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			err := l.update(func(s *state) error {
				s.Records[id] = record{Epoch: int64(i)}
				if i%10 == 0 {
					return bad
				}
				return nil
			})
			if (i%10 == 0) != errors.Is(err, bad) {
				t.Errorf("change %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := len(l.snapshot().Records); n != 90 {
		t.Fatalf("%d records, want 90", n)
	}
	again, err := openLedger(l.store)
	if err != nil || len(again.snapshot().Records) != 90 {
		t.Fatalf("on disk: %v, %v", len(again.snapshot().Records), err)
	}
}

func TestAssignmentOrder(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Door: &fakeDoor{}, Store: &MemoryStore{}, NodeID: "node_1", CloudID: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := assignment("e9", 9)
	foreign.NodeID = "node_2"
	for _, tc := range []struct {
		name string
		as   nodewire.Assignment
		err  error
		held string
	}{
		{"first", assignment("0191-a", 5, container("inst_1", 1)), nil, "0191-a"},
		{"older generation", assignment("0191-a", 4), errStale, "0191-a"},
		{"the same again", assignment("0191-a", 5, container("inst_1", 1)), nil, "0191-a"},
		{"the same version with other content", assignment("0191-a", 5, container("inst_2", 1)), nil, "0191-a"},
		{"older era, greater generation", assignment("0190-z", 900), errStale, "0191-a"},
		{"newer era, smaller generation", assignment("0192-a", 1, container("inst_1", 1)), nil, "0192-a"},
		{"the old era again", assignment("0191-a", 6), errStale, "0192-a"},
		{"another node's", foreign, errInvalid, "0192-a"},
		{"no era", assignment("", 7), errInvalid, "0192-a"},
		{"a path for an id", assignment("0193-a", 1, container("../x", 1)), errInvalid, "0192-a"},
		{"one instance twice", assignment("0193-a", 1, container("inst_1", 1), container("inst_1", 2)), errInvalid, "0192-a"},
	} {
		held, err := a.Assign(tc.as)
		if !errors.Is(err, tc.err) || (tc.err == nil && err != nil) || held.Era != tc.held {
			t.Errorf("%s: held %+v, %v", tc.name, held, err)
		}
		if tc.as.Generation == 5 && a.ledger.snapshot().want(tc.as.Instances[0].ID) == nil {
			t.Errorf("%s: the content is not the last that was said", tc.name)
		}
	}
}

// TestASignOfLifeIsNeverCutOff: the old one is there until the new one is; of one that
// was lost all the same, what else was written tells.
func TestASignOfLifeIsNeverCutOff(t *testing.T) {
	t.Parallel()
	store := FileStore(filepath.Join(t.TempDir(), "ledger.json"))
	first := time.Now().Add(-time.Hour).Round(0)
	if err := store.Beat(first); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(store.beatFile())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if err := store.Beat(first.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(old); err != nil || string(raw) != first.UTC().Format(time.RFC3339Nano) {
		t.Errorf("the old one was written over: %q, %v", raw, err)
	}
	if got := store.LastBeat(); !got.Equal(first.Add(time.Second)) {
		t.Errorf("the last is of %s", got)
	}
	if err := store.Save([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.beatFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := store.LastBeat(); time.Since(got) > time.Minute {
		t.Errorf("of a damaged one: %s", got)
	}
}
