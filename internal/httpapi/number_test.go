package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type part struct {
	Shares *int `json:"shares"`
}

type figures struct {
	VCPU  int     `json:"vcpu"`
	Small int32   `json:"small"`
	Count uint    `json:"count"`
	Share float64 `json:"share"`
	Name  string  `json:"name"`
	Parts []struct {
		part
		Any any `json:"any"`
	} `json:"parts"`
}

// TestAWholeNumberIsOneHoweverItIsWritten, and nothing else is touched.
func TestAWholeNumberIsOneHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	var got figures
	if err := jsonFormat.Unmarshal([]byte(`{"vcpu": 2.0, "small": -3e2, "count": 1.5E1, "share": 2.50, "name": "2.0 \"1e3\" 4.0", "parts": [{"shares": 4.00, "any": 9007199254740993.0}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.VCPU != 2 || got.Small != -300 || got.Count != 15 || got.Share != 2.5 || got.Name != `2.0 "1e3" 4.0` || *got.Parts[0].Shares != 4 {
		t.Errorf("%+v", got)
	}
}

// TestANumberThatItsFieldCanNotHoldIsNamed with its field, in a person's words.
func TestANumberThatItsFieldCanNotHoldIsNamed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"vcpu": 99999999999999999999}`:                          "body.vcpu: must be at most 9223372036854775807",
		`{"name": "vcpu", "vcpu": -1e30}`:                         "body.vcpu: must be at least -9223372036854775808",
		`{"vcpu": 1, "small": 3000000000}`:                        "body.small: must be at most 2147483647",
		`{"count": -1}`:                                           "body.count: must be at least 0",
		`{"share": 1e999}`:                                        "body.share: is too large",
		`{"parts": [{"shares": 2}, {"shares": 1e40}]}`:            "body.parts[1].shares: must be at most 9223372036854775807",
		`{"parts": [{"any": -1e999}]}`:                            "body.parts[0].any: is too small",
		`{"parts": [{"any": {"a": [1, 1e999, 2]}}]}`:              "body.parts[0].any.a[1]: is too large",
		`{"parts": [{"any": {"a": [1, 2]}}, {"shares": "many"}]}`: "body.parts[1].shares: can't be a string",
		`{"vcpu": true}`:                                          "body.vcpu: can't be true or false",
	} {
		err := jsonFormat.Unmarshal([]byte(body), &figures{})
		at, message, ok := "", "", false
		if err != nil {
			at, message, ok = misreadField(err.Error())
		}
		if diff := cmp.Diff(want, at+": "+message); !ok || diff != "" {
			t.Errorf("%s: %v: %s", body, err, diff)
		}
	}
}

// Whatever a body is, writing its numbers otherwise changes nothing of what it says.
func TestNumbersWrittenOtherwiseAreTheSame(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{`"a\\\"1.0"`, "2.0", "-0.0", "1e3", "1.25", "12345678901234567890.0", "7", "true", "null", `"é 3.0"`, "1e-2", "100e-2", "-5.000"})
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(word, 1, 9).Draw(rt, "list")
		body := []byte(`{"x": [` + strings.Join(list, ", ") + `], "y": {"z":` + list[0] + `}}`)
		var before, after any
		if err := json.Unmarshal(body, &before); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(wholeNumbers(body), &after); err != nil {
			rt.Fatalf("%s: %v", wholeNumbers(body), err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestWhatWasExpectedIsSaidInWords(t *testing.T) {
	t.Parallel()
	for expected, want := range map[string]string{
		"integer": "be a whole number", "boolean": "be true or false", "array": "be a list", "number >= 1": "be at least 1", "number <= 1.048576e+06": "be at most 1048576",
		"length >= 1": "be at least 1 character long", "length <= 63": "be at most 63 characters long", "array length >= 2": "have at least 2 items",
	} {
		if got := inWords(expected); got != want {
			t.Errorf("%q: %q, want %q", expected, got, want)
		}
	}
}
