package host

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	sameFault   = 10 * time.Second // signals so close are one fault
	noneKept    = time.Hour        // an application's fault is told so long
	mostPerCard = 64
)

// Signal is one piece of news of a card's health, whoever tells it. Times are
// since boot.
type Signal struct {
	Card    string
	UUID    string
	At      time.Duration
	XID     int   // or
	Fault   Fault //
	PID     int   // 0: not known
	Command string
	GI      int    // GPU instance; -1: the whole card, or not known
	Owner   string // instance whose program it was, where the board knows
	Text    string
	// Line is the number of the kernel's log line, which is read again after a
	// restart; 0: it came another way.
	Line uint64
}

// HealthState is what must outlive the process. It is in the ledger.
type HealthState struct {
	Boot      string                   `json:"boot"`
	At        time.Duration            `json:"at"` // since that boot, when it was saved
	Line      uint64                   `json:"line"`
	Faults    []FaultRecord            `json:"faults,omitempty"`
	Counts    map[string]int           `json:"counts,omitempty"`    // of faults so far, by card and family
	Recovered map[string]time.Duration `json:"recovered,omitempty"` // by card: older signals are settled
}

// FaultRecord is an incident with what is needed to join signals to it.
type FaultRecord struct {
	ID     string        `json:"id"`
	Card   string        `json:"card"`
	UUID   string        `json:"uuid,omitempty"`
	Family string        `json:"family"`
	Kind   string        `json:"kind"`
	XID    int           `json:"xid,omitempty"`
	Action string        `json:"action"`
	Text   string        `json:"text"`
	GI     int           `json:"gi"`
	Owner  string        `json:"owner,omitempty"`
	First  time.Duration `json:"first"` // before this boot: negative
	Last   time.Duration `json:"last"`
	Gone   bool          `json:"gone,omitempty"` // its function is not there
}

// Health makes incidents of signals: one for one fault, however many told of it
// and in whatever order. A value, no clock: whoever has it locks it and saves it.
type Health struct{ HealthState }

// NewHealth begins from what was saved, if anything. Faults that concern a card
// outlive a reboot, until a test has passed; an application's don't.
func NewHealth(boot string, saved *HealthState) *Health {
	h := &Health{HealthState{Boot: boot, Counts: map[string]int{}, Recovered: map[string]time.Duration{}}}
	if saved == nil {
		return h
	}
	if saved.Boot == boot {
		h.HealthState = *saved
		h.Faults, h.Counts, h.Recovered = slices.Clone(saved.Faults), maps.Clone(saved.Counts), maps.Clone(saved.Recovered)
		if h.Counts == nil {
			h.Counts = map[string]int{}
		}
		if h.Recovered == nil {
			h.Recovered = map[string]time.Duration{}
		}
		return h
	}
	for _, f := range saved.Faults {
		if f.Action != nodewire.ActionNone {
			f.First, f.Last, f.GI = f.First-saved.At, f.Last-saved.At, -1
			h.Faults = append(h.Faults, f)
		}
	}
	return h
}

// Save is a copy of the state, as of now.
func (h *Health) Save(now time.Duration) HealthState {
	s := h.HealthState
	s.At = now
	s.Faults, s.Counts, s.Recovered = slices.Clone(s.Faults), maps.Clone(s.Counts), maps.Clone(s.Recovered)
	return s
}

// Hear takes a signal in. One that was heard before, or that is older than the
// card's recovery, changes nothing. It reports whether anything changed.
func (h *Health) Hear(s Signal) bool {
	if s.Line > 0 {
		if s.Line <= h.Line {
			return false
		}
		h.Line = s.Line
	}
	if at, ok := h.Recovered[s.Card]; ok && s.At <= at || s.XID == 0 && s.Fault == "" {
		return false
	}
	r := rulingOf(s)
	if i := h.find(s, r); i >= 0 {
		return h.join(i, s, r)
	}
	key := s.Card + " " + r.family
	h.Counts[key]++
	f := FaultRecord{
		ID: faultID(h.Boot, key, h.Counts[key]), Card: s.Card, UUID: s.UUID, Family: r.family, Kind: r.kind, XID: s.XID, Action: r.action,
		Text: message(s, r), GI: s.GI, Owner: s.Owner, First: s.At, Last: s.At,
	}
	h.Faults = append(h.Faults, f)
	h.bound(s.Card)
	return true
}

func faultID(boot, key string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", boot, key, n))
	return fmt.Sprintf("incident-%x", sum[:10])
}

// find looks for the fault that a signal is of. What concerns the card is one
// fault until it is over; an application's is one for some seconds.
func (h *Health) find(s Signal, r ruling) int {
	best := -1
	for i, f := range h.Faults {
		near := s.At-f.Last <= sameFault && f.First-s.At <= sameFault
		alike := f.GI == s.GI || f.GI < 0 || s.GI < 0
		alike = alike && (f.Owner == s.Owner || f.Owner == "" || s.Owner == "")
		switch {
		case f.Card != s.Card:
		case f.Family == r.family && f.Action != nodewire.ActionNone:
			return i
		case f.Family == r.family && (near && alike || f.Kind == string(MissingSlice)):
			return i
		case r.follows && near && f.Kind != string(MissingSlice) && (alike || f.Action != nodewire.ActionNone):
			best = i
		}
	}
	return best
}

var weight = map[string]int{nodewire.ActionNone: 0, nodewire.ActionNeedsReset: 1, nodewire.ActionOut: 2}

func (h *Health) join(i int, s Signal, r ruling) bool {
	f := &h.Faults[i]
	before := *f
	f.First, f.Last = min(f.First, s.At), max(f.Last, s.At)
	if f.Owner == "" && f.Action == nodewire.ActionNone {
		f.Owner = s.Owner
	}
	if f.UUID == "" {
		f.UUID = s.UUID
	}
	if f.GI < 0 {
		f.GI = s.GI
	}
	if f.Family == r.family && f.XID == 0 {
		f.XID = s.XID
	}
	if weight[r.action] > weight[f.Action] {
		f.Action, f.Text = r.action, message(s, r)
		if f.Family == r.family {
			f.Kind = r.kind
		}
	}
	return *f != before
}

func message(s Signal, r ruling) string {
	text := r.text
	if s.XID > 0 {
		text = fmt.Sprintf("XID %d: %s", s.XID, text)
	}
	if s.Fault == MissingSlice || s.Fault == ResetFailed {
		text += ": " + s.Text
	}
	if who := (Process{PID: s.PID, Command: s.Command}); s.PID > 0 && r.action == nodewire.ActionNone {
		text += ", by " + who.String()
	}
	return text
}

// bound keeps a card's list short: the oldest applications' faults go first.
// What concerns the card stays; there are only so many families of it.
func (h *Health) bound(card string) {
	for {
		n, oldest := 0, -1
		for i, f := range h.Faults {
			if f.Card != card {
				continue
			}
			n++
			if f.Action == nodewire.ActionNone && f.Kind != string(MissingSlice) && (oldest < 0 || f.Last < h.Faults[oldest].Last) {
				oldest = i
			}
		}
		if n <= mostPerCard || oldest < 0 {
			return
		}
		h.Faults = slices.Delete(h.Faults, oldest, oldest+1)
	}
}

// Read takes in a reading of a card by its driver.
func (h *Health) Read(c DriverCard, now time.Duration) bool {
	changed := false
	s := Signal{Card: c.PCIAddress, UUID: c.UUID, At: now, GI: -1}
	if c.Remap.Failure {
		s.Fault = RemapFailure
		changed = h.Hear(s)
	}
	if c.Remap.Pending {
		s.Fault = RemapPending
		changed = h.Hear(s) || changed
	}
	return changed
}

// Present says whether a known card's function is there and answers. A failed
// probe is neither: then nothing is said.
func (h *Health) Present(card, uuid string, there bool, now time.Duration) bool {
	if !there {
		h.Hear(Signal{Card: card, UUID: uuid, At: now, GI: -1, Fault: FellOff})
	}
	changed := false
	for i, f := range h.Faults {
		if f.Card == card && f.Family == string(FellOff) && f.Gone == there {
			h.Faults[i].Gone, changed = !there, true
		}
	}
	return changed
}

// Seen says which card is at an address. Faults are of a card, not of a slot: they
// go where it goes, and are nobody's while it is nowhere. was is how it was called
// before, if otherwise.
func (h *Health) Seen(card, uuid, was string) {
	for i, f := range h.Faults {
		switch {
		case f.UUID == "" || uuid == "":
		case f.UUID == uuid || f.UUID == was:
			h.Faults[i].Card, h.Faults[i].UUID = card, uuid
		case f.Card == card:
			h.Faults[i].Card = ""
		}
	}
}

// Missing says which places of a card's layout its driver does not show. The
// others stay in service.
func (h *Health) Missing(card, uuid string, places []nodewire.Place, now time.Duration) {
	still := map[string]bool{}
	for _, p := range places {
		still[string(MissingSlice)+" "+spell(p)] = true
		h.Hear(Signal{Card: card, UUID: uuid, At: now, GI: -1, Fault: MissingSlice, Text: spell(p)})
	}
	h.Faults = slices.DeleteFunc(h.Faults, func(f FaultRecord) bool {
		return f.Card == card && f.Kind == string(MissingSlice) && !still[f.Family]
	})
}

// Reset says that a card was reset and its check passed: what only waited for
// that is over.
func (h *Health) Reset(card string, now time.Duration) {
	h.settle(card, now, func(f FaultRecord) bool { return f.Action == nodewire.ActionNeedsReset })
}

// Recover says that a card is well: by an operator's word whose check passed, or
// by a test. Everything that concerns it is over; a later signal begins anew.
func (h *Health) Recover(card string, now time.Duration) {
	h.settle(card, now, func(f FaultRecord) bool { return f.Action != nodewire.ActionNone })
}

func (h *Health) settle(card string, now time.Duration, over func(FaultRecord) bool) {
	before := len(h.Faults)
	h.Faults = slices.DeleteFunc(h.Faults, func(f FaultRecord) bool { return f.Card == card && over(f) })
	if len(h.Faults) < before {
		h.Recovered[card] = now
	}
}

// Incidents is the list for a report, oldest first. What an application did is
// forgotten after an hour.
func (h *Health) Incidents(now time.Duration) []nodewire.Incident {
	h.Faults = slices.DeleteFunc(h.Faults, func(f FaultRecord) bool {
		return f.Action == nodewire.ActionNone && f.Kind != string(MissingSlice) && now-f.Last > noneKept
	})
	out := []nodewire.Incident{}
	for _, f := range h.Faults {
		if f.Card == "" {
			continue
		}
		out = append(out, nodewire.Incident{
			ID: f.ID, PCIAddress: f.Card, GPUUUID: f.UUID, Kind: f.Kind, XID: f.XID, Action: f.Action, Message: f.Text, InstanceID: f.Owner,
			AgeSeconds: max(0, (now - f.First).Seconds()),
		})
	}
	slices.SortStableFunc(out, func(a, b nodewire.Incident) int {
		if a.AgeSeconds != b.AgeSeconds {
			return int(b.AgeSeconds*1e6) - int(a.AgeSeconds*1e6)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// State is what a card's open faults make of it, and why; ready when none does.
func (h *Health) State(card string) (state, reason string) {
	worst := -1
	for i, f := range h.Faults {
		if f.Card == card && weight[f.Action] > 0 && (worst < 0 || weight[f.Action] > weight[h.Faults[worst].Action] || f.Gone) {
			worst = i
		}
	}
	if worst < 0 {
		return nodewire.GPUReady, ""
	}
	switch f := h.Faults[worst]; {
	case f.Gone:
		return nodewire.GPUMissing, f.Text
	case f.Action == nodewire.ActionNeedsReset:
		return nodewire.GPUNeedsReset, f.Text
	case f.Kind == string(ResetFailed):
		return nodewire.GPUQuarantined, f.Text
	default:
		return nodewire.GPUUnhealthy, f.Text
	}
}
