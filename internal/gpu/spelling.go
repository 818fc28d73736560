package gpu

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Spelling is what the text of a MIG profile says, before it is known which
// card it is for: "h200 nvl 4g.71gb", "1g.10gb+me".
type Spelling struct {
	Model      string   // key of the card that was named; empty when none was
	Compute    int      // compute slices
	MemoryGB   int      // the label's number: for display, never for arithmetic
	Attributes []string // "me"
}

var spellingForm = regexp.MustCompile(`^(?:(.+?)\s+)?([1-9])g\.([1-9][0-9]{0,3})gb((?:\+[a-z]+)*)$`)

// ParseProfile reads the driver's spelling of a profile, with or without the
// card's name in front. What no known card has (or the named one has not) is an
// error: a spelling never becomes another profile.
func ParseProfile(s string) (Spelling, error) {
	low := strings.ToLower(strings.TrimSpace(s))
	low = strings.TrimPrefix(low, "mig ")
	m := spellingForm.FindStringSubmatch(low)
	if m == nil {
		return Spelling{}, fmt.Errorf("read MIG profile %q: not of the form 1g.10gb or 1g.10gb+me, with the card's name before it or none", s)
	}
	var out Spelling
	out.Compute, _ = strconv.Atoi(m[2])
	out.MemoryGB, _ = strconv.Atoi(m[3])
	if m[4] != "" {
		out.Attributes = strings.Split(m[4][1:], "+")
	}
	if m[1] != "" {
		model, err := ModelByName(m[1])
		if err != nil {
			return Spelling{}, fmt.Errorf("read MIG profile %q: %w", s, err)
		}
		out.Model = model.Key
		if _, err := model.Class(out.label()); err != nil {
			return Spelling{}, fmt.Errorf("read MIG profile %q: %w", s, err)
		}
		return out, nil
	}
	for _, model := range models {
		if _, err := model.Class(out.label()); err == nil {
			return out, nil
		}
	}
	return Spelling{}, fmt.Errorf("read MIG profile %q: no known card has it", s)
}

func (s Spelling) label() string {
	out := fmt.Sprintf("%dg.%dgb", s.Compute, s.MemoryGB)
	for _, a := range s.Attributes {
		out += "+" + a
	}
	return out
}

// Class is the profile's class on a card. It reads the class itself ("1g2"),
// the usual spelling ("1g.20gb") and the known other ones ("3g.39gb"); anything
// else is an error that lists what the card has.
func (m *Model) Class(spelling string) (string, error) {
	low := strings.ToLower(strings.TrimSpace(spelling))
	if _, ok := m.names[low]; ok {
		return low, nil
	}
	for class, name := range m.names {
		if name == low {
			return class, nil
		}
	}
	if class, ok := m.also[low]; ok {
		return class, nil
	}
	if len(m.names) == 0 {
		return "", fmt.Errorf("there is no profile %q: %s has no MIG profiles", spelling, m.Name)
	}
	var have []string
	for _, c := range m.Classes() {
		have = append(have, m.names[c])
	}
	return "", fmt.Errorf("there is no profile %q on %s, which has %s", spelling, m.Name, strings.Join(have, ", "))
}

// ClassOf is Class for a spelling that may have a card's name in front, which
// must be this card's.
func (m *Model) ClassOf(text string) (string, error) {
	class, err := m.Class(text)
	if err == nil {
		return class, nil
	}
	s, parseErr := ParseProfile(text)
	switch {
	case parseErr != nil || s.Model == "":
		return "", err
	case s.Model != m.Key:
		return "", fmt.Errorf("profile %q is of %s, and the card is %s", text, s.Model, m.Name)
	}
	return m.Class(s.label())
}
