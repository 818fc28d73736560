package httpapi

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrongValuesComeBackShortAndWithoutSecrets(t *testing.T) {
	long := strings.Repeat("ä", 5_000)
	for location, v := range map[string]any{
		"body.user_data": long, "body.password": "hunter2", "body.new_password": "hunter2", "body.registry.password": "hunter2",
		"body":   map[string]any{"name": "x", "password": "hunter2"},
		"body[]": []any{map[string]any{"user_data": "hunter2"}},
	} {
		if got := toldBack(location, v); got != nil {
			t.Errorf("%s comes back as %v", location, got)
		}
	}
	for location, v := range map[string]any{"body.name": long, "body.labels": map[string]any{"a": long}} {
		got, ok := toldBack(location, v).(string)
		if n := utf8.RuneCountInString(got); !ok || n != valueCharacters+1 {
			t.Errorf("%s comes back with %d characters", location, n)
		}
	}
	if got := toldBack("body.vcpu", 7); got != 7 {
		t.Errorf("a short value comes back as %v", got)
	}
}
